//go:build !nosqlite

// SQLite files of the original, which get the columns of today.

package persist

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// sqliteOldRows is what an original had stored.
func sqliteOldRows(now time.Time) []string {
	at := now.Add(-time.Second).UnixNano()
	return []string{
		`INSERT INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES ('m', 5, 600, 7)`,
		fmt.Sprintf(`INSERT INTO requests (model, ts) VALUES ('m', %d)`, at),
		fmt.Sprintf(`INSERT INTO tokens (model, ts, count) VALUES ('m', %d, 30)`, at),
		fmt.Sprintf(`INSERT INTO daily (model, day_start, day_count) VALUES ('m', %d, 3)`, at),
	}
}

// sqliteOldSchemas are databases of other versions.
var sqliteOldSchemas = []struct {
	name    string
	schema  []string
	version string
}{
	{"the original's", []string{statefile.Documented}, "0"},
	{"ours, before there were more columns", []string{statefile.Documented, `PRAGMA user_version = 1`}, "1"},
	{"with some of the columns", []string{statefile.Documented, `ALTER TABLE quotas ADD COLUMN max_tpd INTEGER NOT NULL DEFAULT 0`,
		`ALTER TABLE tokens ADD COLUMN input INTEGER NOT NULL DEFAULT 0`}, "0"},
	{"with columns in other letters", []string{statefile.Documented, `ALTER TABLE tokens ADD COLUMN Input integer NOT NULL DEFAULT 0`,
		`CREATE TABLE Cooldowns (Model text PRIMARY KEY, Until integer NOT NULL)`}, "0"},
	{"with the columns in another order", []string{statefile.Documented, `ALTER TABLE quotas ADD COLUMN day_zone TEXT NOT NULL DEFAULT ''`,
		`ALTER TABLE quotas ADD COLUMN max_in_flight INTEGER NOT NULL DEFAULT 0`}, "0"},
	{"with all of the columns", []string{statefile.Documented, statefile.Added}, "0"},
	{"with tables of another program beside", []string{statefile.Documented, `CREATE TABLE customers (name TEXT)`, `CREATE VIEW v AS SELECT * FROM quotas`, `CREATE VIEW broken AS SELECT * FROM gone`,
		`CREATE TRIGGER t AFTER INSERT ON customers BEGIN DELETE FROM customers; END`}, "0"},
	{"with WAL", []string{`PRAGMA journal_mode=WAL`, statefile.Documented}, "0"},
}

func TestSQLiteAddsColumns(t *testing.T) {
	columns := func(t *testing.T, path string) []string {
		return statefile.Query(t, path, `SELECT m.name, lower(c.name), upper(c.type), c."notnull", c.dflt_value, c.pk FROM sqlite_master m, pragma_table_info(m.name) c
			WHERE lower(m.name) IN ('quotas', 'requests', 'tokens', 'daily') ORDER BY 1, 2`)
	}
	fresh := statefile.Path(t)
	sqliteLimiter(t, fresh)
	for _, tt := range sqliteOldSchemas {
		t.Run(tt.name, func(t *testing.T) {
			path, now := statefile.Path(t), time.Now()
			statefile.Exec(t, path, append(slices.Clone(tt.schema), sqliteOldRows(now)...)...)
			rl := sqliteLimiter(t, path)
			if got, want := columns(t, path), columns(t, fresh); !slices.Equal(got, want) {
				t.Errorf("columns %q, want %q", got, want)
			}
			if got := statefile.Query(t, path, `PRAGMA user_version`); !slices.Equal(got, []string{tt.version}) {
				t.Errorf("user_version %q, want %s", got, tt.version)
			}
			limitertest.Load(t, rl)
			if got, want := rl.Quotas["m"], (ratelimit.ModelQuota{MaxRPM: 5, MaxTPM: 600, MaxRPD: 7}); got != want {
				t.Errorf("quota %+v, want %+v", got, want)
			}
			if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 30 || s.RPD != 3 {
				t.Errorf("used %+v", s)
			}
			quota := ratelimit.ModelQuota{MaxITPM: 1, MaxOTPM: 2, MaxTPD: 3, MaxInFlight: 4, DayZone: "Asia/Tokyo", Burst: 5}
			rl.SetQuota("new", quota)
			rl.State["new"] = &ratelimit.UsageStats{
				Tokens: []ratelimit.TokenEntry{{Time: now, Count: 9, Input: 8}}, DayStart: now, DayCount: 1, DayTokens: 9,
			}
			limitertest.Save(t, rl)
			if err := rl.Close(); err != nil {
				t.Fatal(err)
			}

			before := statefile.Contents(t, path)
			again := sqliteLimiter(t, path)
			limitertest.Load(t, again)
			if got := again.Quotas["new"]; got != quota {
				t.Errorf("quota %+v, want %+v", got, quota)
			}
			if got := again.State["new"]; got.Tokens[0].Input != 8 || got.DayTokens != 9 {
				t.Errorf("used %+v", got)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(statefile.Contents(t, path), before, bytes.Equal) {
				t.Error("to open it again changed the file")
			}
		})
	}
}

// What the original does with its database works on one that we have used: it
// names its columns.
func TestSQLiteOriginalGoesOnWithTheFile(t *testing.T) {
	path, now := statefile.Path(t), time.Now()
	statefile.Exec(t, path, statefile.Documented)
	statefile.Exec(t, path, sqliteOldRows(now)...)
	rl := sqliteLimiter(t, path)
	limitertest.Load(t, rl)
	rl.SetQuota("new", ratelimit.ModelQuota{MaxRPM: 1, MaxITPM: 2, DayZone: "Asia/Tokyo", Burst: 5})
	rl.RecordUsage("m", 10, 1)
	rl.State["m"].DayTokens = 41
	limitertest.Save(t, rl)

	original := statefile.Open(t, path)
	for query, want := range map[string][]string{
		`SELECT model, max_rpm, max_tpm, max_rpd FROM quotas ORDER BY 1`: {"m 5 600 7", "new 1 0 0"},
		`SELECT model, count FROM tokens ORDER BY 2`:                     {"m 11", "m 30"},
		`SELECT model, day_count FROM daily`:                             {"m 4"},
		`SELECT count(*) FROM requests WHERE ts > 0`:                     {"2"},
	} {
		if got := statefile.Rows(t, original, query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	later := now.Add(time.Second).UnixNano()
	for _, statement := range []string{
		strings.ReplaceAll(strings.ReplaceAll(statefile.Documented, "CREATE TABLE", "CREATE TABLE IF NOT EXISTS"), "CREATE INDEX", "CREATE INDEX IF NOT EXISTS"),
		`DELETE FROM quotas`,
		`INSERT INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES ('m', 8, 9, 10)`,
		`INSERT INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES ('m', 9, 9, 10) ON CONFLICT(model) DO UPDATE SET max_rpm = excluded.max_rpm`,
		`INSERT OR REPLACE INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES ('theirs', 1, 2, 3)`,
		`DELETE FROM requests`, `DELETE FROM tokens`, `DELETE FROM daily`,
		fmt.Sprintf(`INSERT INTO requests (model, ts) VALUES ('m', %d)`, later),
		fmt.Sprintf(`INSERT INTO tokens (model, ts, count) VALUES ('m', %d, 77)`, later),
		fmt.Sprintf(`INSERT INTO daily (model, day_start, day_count) VALUES ('m', %d, 5)`, later),
	} {
		if _, err := original.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	again := sqliteLimiter(t, path)
	limitertest.Load(t, again)
	if want := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 9, MaxTPM: 9, MaxRPD: 10}, "theirs": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3}}; !maps.Equal(again.Quotas, want) {
		t.Errorf("quotas %v, want %v", again.Quotas, want)
	}
	if got := again.State["m"]; len(got.Tokens) != 1 || got.Tokens[0].Count != 77 || got.Tokens[0].Input != 0 || got.DayCount != 5 || got.DayTokens != 0 {
		t.Errorf("used %+v", got)
	}
}

// Processes that open an old file at once add each column once.
func TestSQLiteManyProcessesOpenAnOldFile(t *testing.T) {
	t.Parallel()
	rounds := 5
	if racetest.Long() {
		rounds = 100
	}
	dir := t.TempDir()
	sqliteOpenTogether(t, 6, rounds, func(round int) string {
		path := filepath.Join(dir, fmt.Sprint(round, ".db"))
		statefile.Exec(t, path, sqliteOldSchemas[round%len(sqliteOldSchemas)].schema...)
		return path
	})
}

// A limiter of the columns as they were has the file open while another adds
// some.
func TestSQLiteAddsColumnsUnderAnOpenFile(t *testing.T) {
	path, now := statefile.Path(t), time.Now()
	statefile.Exec(t, path, `PRAGMA journal_mode=WAL`, statefile.Documented)
	original := statefile.Open(t, path)
	insert, err := original.Prepare(`INSERT INTO tokens (model, ts, count) VALUES ('m', ?, ?)`)
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	for i := range 2 {
		if _, err := insert.Exec(now.UnixNano(), i+1); err != nil {
			t.Fatal(err)
		}
		limitertest.Load(t, sqliteLimiter(t, path))
	}
	if got := statefile.Query(t, path, `SELECT model, count, input FROM tokens ORDER BY 2`); !slices.Equal(got, []string{"m 1 0", "m 2 0"}) {
		t.Errorf("tokens %q", got)
	}
}
