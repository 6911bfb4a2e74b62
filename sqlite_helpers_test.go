// Helpers of the tests of SQLite files.

package ratelimit_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sqliteLimiter returns a limiter without quotas that keeps its state in path.
func sqliteLimiter(t testing.TB, path string) *ratelimit.RateLimiter {
	t.Helper()
	return sqliteLimiterWith(t, path, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
}

func sqliteLimiterWith(t testing.TB, path string, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	})
	return rl
}

// sqlitePath returns the path of a database that does not exist yet.
func sqlitePath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state.db")
}

func sqlitePersist(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
}

func sqliteLoad(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
}

// sqliteRaw opens the database as a program that knows nothing of the library.
func sqliteRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// sqliteExec runs statements on the database and closes it.
func sqliteExec(t testing.TB, path string, statements ...string) {
	t.Helper()
	db := sqliteRaw(t, path)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// sqliteQuery opens the database and returns the rows of a query as text.
func sqliteQuery(t testing.TB, path, query string) []string {
	t.Helper()
	db := sqliteRaw(t, path)
	defer db.Close()
	return sqliteRows(t, db, query)
}

func sqliteRows(t testing.TB, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		found = append(found, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// sqliteDocumented is the database as the original's document has it.
const sqliteDocumented = `
CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0, max_tpm INTEGER NOT NULL DEFAULT 0, max_rpd INTEGER NOT NULL DEFAULT 0);
CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL);
CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL);
CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL DEFAULT 0);
CREATE INDEX idx_requests_model_ts ON requests(model, ts);
CREATE INDEX idx_tokens_model_ts ON tokens(model, ts);
`

// sqliteAdded is what this version adds to that.
const sqliteAdded = `
ALTER TABLE quotas ADD COLUMN max_itpm INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quotas ADD COLUMN max_otpm INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quotas ADD COLUMN max_tpd INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quotas ADD COLUMN max_in_flight INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quotas ADD COLUMN day_zone TEXT NOT NULL DEFAULT '';
ALTER TABLE quotas ADD COLUMN burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN input INTEGER NOT NULL DEFAULT 0;
ALTER TABLE daily ADD COLUMN day_tokens INTEGER NOT NULL DEFAULT 0;
CREATE TABLE cooldowns (model TEXT PRIMARY KEY, until INTEGER NOT NULL);
CREATE TABLE cooldown_causes (model TEXT PRIMARY KEY, until INTEGER NOT NULL, cause TEXT NOT NULL);
CREATE TABLE origins (model TEXT PRIMARY KEY, said TEXT NOT NULL);
CREATE TABLE answers (model TEXT PRIMARY KEY, learned TEXT NOT NULL);
CREATE TABLE quota_budgets (model TEXT PRIMARY KEY, max_spend_per_day INTEGER NOT NULL DEFAULT 0, max_spend_per_month INTEGER NOT NULL DEFAULT 0);
CREATE TABLE spend (model TEXT PRIMARY KEY, spent TEXT NOT NULL);
CREATE TABLE quota_bounds (model TEXT PRIMARY KEY, adaptive_floor_rpm INTEGER NOT NULL DEFAULT 0, adaptive_ceiling_rpm INTEGER NOT NULL DEFAULT 0,
	adaptive_floor_in_flight INTEGER NOT NULL DEFAULT 0, adaptive_ceiling_in_flight INTEGER NOT NULL DEFAULT 0);
CREATE TABLE found (model TEXT PRIMARY KEY, found TEXT NOT NULL);
CREATE TABLE pools (model TEXT PRIMARY KEY, members TEXT NOT NULL);
`

// sqliteWantSchema compares the tables and indexes of two databases.
func sqliteWantSchema(t *testing.T, path, like string) {
	t.Helper()
	for _, query := range []string{
		`SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk
			FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2`,
		`SELECT m.name, m.tbl_name, c.seqno, c.name
			FROM sqlite_master m, pragma_index_info(m.name) c WHERE m.type = 'index' ORDER BY 1, 3`,
		`SELECT count(*) FROM sqlite_master`,
	} {
		want, got := sqliteQuery(t, like, query), sqliteQuery(t, path, query)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", query, got, want)
		}
	}
}

func sqliteWantStats(t *testing.T, model string, got, want *ratelimit.UsageStats) {
	t.Helper()
	sameEntry := func(a, b ratelimit.TokenEntry) bool {
		return a.Count == b.Count && a.Input == b.Input && a.Time.Equal(b.Time)
	}
	if got == nil || !slices.EqualFunc(got.Requests, want.Requests, time.Time.Equal) ||
		!slices.EqualFunc(got.Tokens, want.Tokens, sameEntry) ||
		!got.DayStart.Equal(want.DayStart) || got.DayCount != want.DayCount || got.DayTokens != want.DayTokens {
		t.Errorf("%q is %+v, want %+v", model, got, want)
	}
}

// sqliteWantStored persists, and compares what a fresh limiter reads with what rl
// counts.
func sqliteWantStored(t *testing.T, rl *ratelimit.RateLimiter, path string) {
	t.Helper()
	sqlitePersist(t, rl)
	reader := sqliteLimiter(t, path)
	sqliteLoad(t, reader)
	want, got := rl.AllStats(), reader.AllStats()
	for model := range want {
		w, g := want[model], got[model]
		w.DayStart, g.DayStart = time.Time{}, time.Time{}
		if g != w {
			t.Fatalf("%s: stored %+v, counted %+v", model, g, w)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d models stored, %d counted", len(got), len(want))
	}
}
