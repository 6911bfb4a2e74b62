package statefile

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Path returns the path of a database that does not exist yet.
func Path(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state.db")
}

// Open opens the database as a program that knows nothing of the library.
func Open(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// Exec runs statements on the database and closes it.
func Exec(t testing.TB, path string, statements ...string) {
	t.Helper()
	db := Open(t, path)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Query opens the database and returns the rows of a query as text.
func Query(t testing.TB, path, query string) []string {
	t.Helper()
	db := Open(t, path)
	defer db.Close()
	return Rows(t, db, query)
}

// Rows returns the rows of a query as text.
func Rows(t testing.TB, db *sql.DB, query string) []string {
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

// Documented is the database as the original's document has it.
const Documented = `
CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0, max_tpm INTEGER NOT NULL DEFAULT 0, max_rpd INTEGER NOT NULL DEFAULT 0);
CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL);
CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL);
CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL DEFAULT 0);
CREATE INDEX idx_requests_model_ts ON requests(model, ts);
CREATE INDEX idx_tokens_model_ts ON tokens(model, ts);
`

// Added is what this version adds to that.
const Added = `
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
CREATE TABLE quota_windows (model TEXT PRIMARY KEY, max_spend_per_ten_minutes INTEGER NOT NULL DEFAULT 0, max_tokens_per_month INTEGER NOT NULL DEFAULT 0);
CREATE TABLE spend (model TEXT PRIMARY KEY, spent TEXT NOT NULL);
CREATE TABLE quota_bounds (model TEXT PRIMARY KEY, adaptive_floor_rpm INTEGER NOT NULL DEFAULT 0, adaptive_ceiling_rpm INTEGER NOT NULL DEFAULT 0,
	adaptive_floor_in_flight INTEGER NOT NULL DEFAULT 0, adaptive_ceiling_in_flight INTEGER NOT NULL DEFAULT 0);
CREATE TABLE found (model TEXT PRIMARY KEY, found TEXT NOT NULL);
CREATE TABLE pools (model TEXT PRIMARY KEY, members TEXT NOT NULL);
`

// WantSchema compares the tables and indexes of two databases.
func WantSchema(t *testing.T, path, like string) {
	t.Helper()
	for _, query := range []string{
		`SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk
			FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2`,
		`SELECT m.name, m.tbl_name, c.seqno, c.name
			FROM sqlite_master m, pragma_index_info(m.name) c WHERE m.type = 'index' ORDER BY 1, 3`,
		`SELECT count(*) FROM sqlite_master`,
	} {
		want, got := Query(t, like, query), Query(t, path, query)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", query, got, want)
		}
	}
}

// WantCorrupt fails a test unless the error is one of a corrupt state that is short and mentions
// all of that.
func WantCorrupt(t *testing.T, err error, mentions ...string) {
	t.Helper()
	if !errors.Is(err, state.ErrCorrupt) {
		t.Fatalf("error %v, want ErrCorruptState", err)
	}
	if len(err.Error()) > 1024 || strings.ContainsAny(err.Error(), "\n\r\x00\u202e") {
		t.Errorf("an error of %d bytes: %q", len(err.Error()), err)
	}
	for _, mention := range mentions {
		if !strings.Contains(err.Error(), mention) {
			t.Errorf("error %q, want it to name %s", err, mention)
		}
	}
}
