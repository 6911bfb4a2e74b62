//go:build !nosqlite

// SQLite files that are damaged, of another program, or hold bad values.

package ratelimit_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sqliteSample makes a database of some pages and closes it.
func sqliteSample(t testing.TB) (path string) {
	t.Helper()
	sample, err := sqliteSampleBytes()
	path = sqlitePath(t)
	if err := errors.Join(err, os.WriteFile(path, sample, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// sqliteSampleBytes is what a limiter has made of a database, once for all tests.
var sqliteSampleBytes = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.db")
	rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"m": {MaxRPM: 10, MaxTPM: 1000, MaxRPD: 100}, "n": {},
	}})
	if err != nil {
		return nil, err
	}
	for i := range 300 {
		rl.RecordUsage([]string{"m", "n"}[i%2], i, i)
	}
	if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func sqliteContent(t testing.TB, path string) map[string][]byte {
	t.Helper()
	content := make(map[string][]byte)
	for _, name := range sqliteFiles(t, filepath.Dir(path)) {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		content[name] = data
	}
	return content
}

func sqliteWantCorrupt(t *testing.T, err error, mentions ...string) {
	t.Helper()
	if !errors.Is(err, ratelimit.ErrCorruptState) {
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

// sqliteQuotasWith is the original's table of quotas with other columns behind
// its own.
func sqliteQuotasWith(columns string) string {
	return `CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0, max_tpm INTEGER NOT NULL DEFAULT 0,
		max_rpd INTEGER NOT NULL DEFAULT 0, ` + columns + `)`
}

func TestSQLiteRefusesDamagedFiles(t *testing.T) {
	t.Parallel()
	change := func(edit func(data []byte) []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, edit(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	zeroPage := func(n int) func(t *testing.T, path string) {
		return change(func(data []byte) []byte {
			clear(data[n*4096 : (n+1)*4096])
			return data
		})
	}
	run := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { sqliteExec(t, path, statements...) }
	}
	fresh := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			sqliteExec(t, path, statements...)
		}
	}
	without := func(table, instead string) func(t *testing.T, path string) {
		return run("DROP TABLE "+table, instead)
	}
	tests := []struct {
		name     string
		damage   func(t *testing.T, path string)
		mentions string
	}{
		{"garbage", change(func([]byte) []byte { return bytes.Repeat([]byte("garbage "), 5000) }), "not a database"},
		{"one byte", change(func([]byte) []byte { return []byte("x") }), ""},
		{"a YAML file", change(func([]byte) []byte { return []byte("quotas: {}\nstate: {}\n") }), "not a database"},
		{"a header only", change(func(data []byte) []byte { return data[:100] }), ""},
		{"the last page is cut off", change(func(data []byte) []byte { return data[:len(data)-4096] }), ""},
		{"half of the last page is cut off", change(func(data []byte) []byte { return data[:len(data)-2048] }), ""},
		{"half of the file is cut off", change(func(data []byte) []byte { return data[:len(data)/8192*4096] }), ""},
		{"page 2 is zero", zeroPage(1), ""},
		{"page 4 is zero", zeroPage(3), ""},
		{"a later page is zero", zeroPage(8), ""},
		{"a format of the file that SQLite does not know", change(func(data []byte) []byte { data[18], data[19] = 9, 9; return data }), ""},
		{"a format of the schema that SQLite does not know", change(func(data []byte) []byte { data[47] = 9; return data }), "unsupported"},
		{"a page size that cannot be", change(func(data []byte) []byte { binary.BigEndian.PutUint16(data[16:], 3); return data }), ""},

		{"of another program", fresh(`CREATE TABLE customers (name TEXT)`), "another program"},
		{"of another program, with WAL", fresh(`PRAGMA journal_mode=WAL`, `CREATE TABLE customers (name TEXT)`), "another program"},
		{"of another program, with a view only", fresh(`CREATE VIEW v AS SELECT 1`), "another program"},
		{"of another program, with a table like ours", fresh(`CREATE TABLE tokens (id INTEGER PRIMARY KEY, secret TEXT)`), "tokens"},
		{"of another program, with a table just like ours", fresh(`CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL)`, `CREATE TABLE customers (name TEXT)`), "another program"},
		{"of a newer version", run(`PRAGMA user_version = 4`), "format 4"},
		{"of a negative version", run(`PRAGMA user_version = -1`), "format -1"},
		{"empty, of a newer version", fresh(`PRAGMA user_version = 4`), "format 4"},

		{"a trigger on a table", run(`CREATE TRIGGER evil AFTER INSERT ON tokens BEGIN DELETE FROM quotas; END`), "tokens"},
		{"a trigger, in other letters", run(`CREATE TRIGGER evil AFTER INSERT ON TOKENS BEGIN DELETE FROM quotas; END`), "tokens"},
		{"a view in place of a table", without("daily", `CREATE VIEW daily AS SELECT 'm' AS model, 0 AS day_start, 0 AS day_count`), "daily"},
		{"a virtual table in place of a table", without("requests", `CREATE VIRTUAL TABLE requests USING fts5(model, ts)`), "requests"},
		{"a table without rowid", without("daily", `CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID`), "daily"},
		{"a table without a column", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL)`), "tokens"},
		{"a table with one more column", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL, more TEXT NOT NULL)`), "requests"},
		{"a column that is ours, of another type", without("daily",
			`CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL, day_tokens TEXT NOT NULL)`), `"day_tokens"`},
		{"a zone that is no text", without("quotas", sqliteQuotasWith(`day_zone INTEGER`)), `"day_zone"`},
		{"one of our columns and one that is not", without("quotas", sqliteQuotasWith(`max_itpm INTEGER NOT NULL DEFAULT 0, max_xtpm INTEGER NOT NULL DEFAULT 0`)), `"max_xtpm"`},
		{"a column of another table of ours", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL, day_tokens INTEGER NOT NULL DEFAULT 0)`), `"day_tokens"`},
		{"one of our columns before the original's", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, input INTEGER NOT NULL DEFAULT 0, count INTEGER NOT NULL)`), `"input"`},
		{"one of our columns, generated", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL, input INTEGER AS (1) STORED)`), `"input"`},
		{"one of our columns, hidden", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL, input INTEGER AS (1))`), `"input"`},
		{"one of our columns and too many", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL, input INTEGER NOT NULL, more TEXT)`), "5 columns"},
		{"one of our columns as the key", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL, input INTEGER PRIMARY KEY)`), `"input"`},
		{"cooldowns of another program", without("cooldowns", `CREATE TABLE cooldowns (id INTEGER PRIMARY KEY, ends TEXT)`), "cooldowns"},
		{"cooldowns without a key", without("cooldowns", `CREATE TABLE cooldowns (model TEXT, until INTEGER NOT NULL)`), `"model"`},
		{"a view in place of the cooldowns", without("cooldowns", `CREATE VIEW cooldowns AS SELECT 'm' AS model, 1 AS until`), "cooldowns"},
		{"a trigger on the cooldowns", run(`CREATE TRIGGER evil AFTER INSERT ON cooldowns BEGIN DELETE FROM quotas; END`), "cooldowns"},
		{"of another program, with a table just like our cooldowns", fresh(`CREATE TABLE cooldowns (model TEXT PRIMARY KEY, until INTEGER NOT NULL)`, `CREATE TABLE customers (name TEXT)`), "another program"},
		{"a column of another name", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, at INTEGER NOT NULL)`), `"at"`},
		{"a column of another type", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, ts TEXT NOT NULL)`), `"ts"`},
		{"a column called rowid", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, rowid INTEGER NOT NULL)`), `"rowid"`},
		{"a column that is the rowid", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER PRIMARY KEY)`), `"ts"`},
		{"a generated column", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER AS (1))`), "requests"},
		{"a table without its key", without("daily", `CREATE TABLE daily (model TEXT, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL DEFAULT 0)`), `"model"`},
		{"a schema with a name that runs over the terminal", run(`PRAGMA writable_schema=ON`, "UPDATE sqlite_master SET sql = 'CREATE TABLE daily (', name = 'x\x1b[2J\n"+strings.Repeat("y", 5000)+"', tbl_name = name WHERE name = 'daily'"), "malformed"},
		{"a table that hides a function of SQLite", run(`DROP TABLE tokens`, `CREATE TABLE tokens (model TEXT NOT NULL)`, `CREATE TABLE pragma_table_xinfo (name, type, pk, hidden)`), "tokens"},
		{"a missing value", run(`PRAGMA writable_schema=ON`, `UPDATE sqlite_master SET sql = 'CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER, day_count INTEGER)' WHERE name = 'daily'`,
			`PRAGMA writable_schema=RESET`, `INSERT INTO daily VALUES ('x', NULL, 1)`, `PRAGMA writable_schema=ON`,
			`UPDATE sqlite_master SET sql = 'CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL)' WHERE name = 'daily'`), "NULL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := sqliteSample(t)
			tt.damage(t, path)
			before := sqliteContent(t, path)
			rl, err := ratelimit.NewWithSQLite(path)
			if err == nil {
				rl.Close()
			}
			sqliteWantCorrupt(t, err, tt.mentions, path)
			if !strings.HasPrefix(err.Error(), "new limiter: open database: corrupt state: ") {
				t.Errorf("error %q", err)
			}
			after := sqliteContent(t, path)
			if !bytes.Equal(after[filepath.Base(path)], before[filepath.Base(path)]) {
				t.Error("the file was changed")
			}
			for name, data := range after {
				if _, existed := before[name]; !existed && !(strings.HasSuffix(name, "-wal") && len(data) == 0) && !strings.HasSuffix(name, "-shm") {
					t.Errorf("it left %s, %d bytes", name, len(data))
				}
			}
		})
	}
}

// The other program is at work, and has not yet moved its changes from the -wal
// file to the database.
func TestSQLiteLeavesTheWALOfAnotherProgram(t *testing.T) {
	path := sqlitePath(t)
	db := sqliteRaw(t, path)
	for _, s := range []string{`PRAGMA journal_mode=WAL`, `CREATE TABLE customers (name TEXT)`, `INSERT INTO customers VALUES ('x')`} {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	copied := sqlitePath(t) // as if the program had been killed
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := sqliteContent(t, copied)
	_, err := ratelimit.NewWithSQLite(copied)
	sqliteWantCorrupt(t, err, "another program")
	after := sqliteContent(t, copied)
	maps.DeleteFunc(after, func(name string, _ []byte) bool { return strings.HasSuffix(name, "-shm") })
	if !maps.EqualFunc(after, before, bytes.Equal) {
		t.Error("its files were changed")
	}
}

// The original makes its tables one by one, and may have been killed in between.
func TestSQLiteTakesOverWhatWasLeftHalfMade(t *testing.T) {
	now := time.Now().UnixNano()
	path := sqlitePath(t)
	sqliteExec(t, path, strings.SplitAfter(sqliteDocumented, ";")[0], `INSERT INTO quotas VALUES ('m', 1, 2, 3)`,
		strings.SplitAfter(sqliteDocumented, ";")[1], fmt.Sprintf(`INSERT INTO requests VALUES ('m', %d)`, now))
	rl := sqliteLimiter(t, path)
	sqliteLoad(t, rl)
	if s := rl.Stats("m"); s.RPM != 1 || s.MaxTPM != 2 {
		t.Errorf("some of the tables: %+v", s)
	}
	sqliteWantStored(t, rl, path)
}

func TestSQLiteLoadRefusesBadValues(t *testing.T) {
	t.Parallel()
	const (
		quota = `INSERT INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES `
		req   = `INSERT INTO requests (model, ts) VALUES `
		tok   = `INSERT INTO tokens (model, ts, count) VALUES `
		daily = `INSERT INTO daily (model, day_start, day_count) VALUES `

		quotaAdded = `INSERT INTO quotas (model, max_itpm, max_otpm, max_tpd, max_in_flight, day_zone) VALUES `
	)
	tests := []struct {
		statement, mentions string
		invalidQuota        bool
	}{
		{quota + `('bad', -1, 0, 0)`, "max_rpm -1", true},
		{quota + `('bad', 0, -9223372036854775808, 0)`, "max_tpm -9223372036854775808", true},
		{quota + `('bad', 0, 0, -3)`, "max_rpd -3", true},
		{quota + `('bad', 'many', 0, 0)`, "max_rpm many", false},
		{quota + `('bad', 0, 1.5, 0)`, "max_tpm 1.5", false},
		{quota + `('bad', 0, 9223372036854775808, 0)`, "max_tpm real", false},
		{quota + `('bad', 0, 0, x'31')`, "max_rpd blob", false},
		{quota + `(NULL, 1, 1, 1)`, "model null", false},
		{quota + `(x'626164', 1, 1, 1)`, "model blob", false},
		{req + `('bad', 'now')`, "ts now", false},
		{req + `('bad', 1.5)`, "ts 1.5", false},
		{req + `('bad', x'')`, "ts blob", false},
		{req + `(x'626164', 1)`, "model blob", false},
		{tok + `('bad', 1, -1)`, "count -1", false},
		{tok + `('bad', 1, 'lots')`, "count lots", false},
		{tok + `('bad', 1, 2.5)`, "count 2.5", false},
		{tok + `('bad', 1, 1e300)`, "count real", false},
		{tok + `('bad', '2026-01-01T00:00:00Z', 1)`, "ts 2026-01-01", false},
		{tok + `(x'626164', 1, 1)`, "model blob", false},
		{daily + `('bad', 'today', 1)`, "day_start today", false},
		{daily + `('bad', 1, -5)`, "day_count -5", false},
		{daily + `('bad', 1, x'00')`, "day_count blob", false},
		{daily + `(NULL, 1, 1)`, "model null", false},
		{quotaAdded + `('bad', -4, 0, 0, 0, '')`, "max_itpm -4", true},
		{quotaAdded + `('bad', 0, -5, 0, 0, '')`, "max_otpm -5", true},
		{quotaAdded + `('bad', 0, 0, -6, 0, '')`, "max_tpd -6", true},
		{quotaAdded + `('bad', 0, 0, 0, -7, '')`, "max_in_flight -7", true},
		{`INSERT INTO quotas (model, burst) VALUES ('bad', -1000000000)`, "Burst burst -1s", true},
		{`INSERT INTO quotas (model, burst) VALUES ('bad', '10s')`, "burst 10s", false},
		{quotaAdded + `('bad', 0, 0, 0, 0.5, '')`, "max_in_flight real", false},
		{quotaAdded + `('bad', 0, 0, 0, 0, 'Mars/Base')`, "DayZone day_zone Mars/Base time/tzdata", true},
		{quotaAdded + `('bad', 0, 0, 0, 0, '../../etc/passwd')`, "day_zone etc/passwd", true},
		{quotaAdded + `('bad', 0, 0, 0, 0, x'5554')`, "day_zone blob text", false},
		{quotaAdded + `('bad', 0, 0, 0, 0, '` + strings.Repeat("\x01", 100_000) + `')`, "day_zone", true},
		{`INSERT INTO tokens (model, ts, count, input) VALUES ('bad', 1, 5, 7)`, "input 7 5", false},
		{`INSERT INTO tokens (model, ts, count, input) VALUES ('bad', 1, 5, -1)`, "input -1", false},
		{`INSERT INTO tokens (model, ts, count, input) VALUES ('bad', 1, 5, 'some')`, "input some", false},
		{`INSERT INTO daily (model, day_start, day_count, day_tokens) VALUES ('bad', 1, 1, -8)`, "day_tokens -8", false},
		{`INSERT INTO daily (model, day_start, day_count, day_tokens) VALUES ('bad', 1, 1, x'00')`, "day_tokens blob", false},
		{`INSERT INTO cooldowns VALUES ('bad', 'soon')`, "until soon", false},
		{`INSERT INTO cooldowns VALUES (x'626164', 1)`, "model blob", false},
		{`INSERT INTO cooldowns VALUES (NULL, 1)`, "model null", false},
		{`INSERT INTO answers VALUES ('bad', 7)`, "learned", false},
		{`INSERT INTO answers VALUES ('bad', '{"count":-7}')`, "count -7", false},
		{`INSERT INTO found VALUES ('bad', 7)`, "found", false},
		{`INSERT INTO found VALUES ('bad', '{"rate":{"level":-7}}')`, "rate_level -7", false},
		{`INSERT INTO quotas (model) VALUES ('bad'); INSERT INTO quota_bounds VALUES ('bad', -7, 0, 0, 0)`, "AdaptiveFloorRPM adaptive_floor_rpm -7", true},
		{`INSERT INTO quotas (model) VALUES ('bad'); INSERT INTO quota_bounds VALUES ('bad', 8, 7, 0, 0)`, "AdaptiveFloorRPM adaptive_floor_rpm 8 ceiling 7", true},
		{`INSERT INTO quota_bounds VALUES ('bad', 0, 0, 0, 'x')`, "adaptive_ceiling_in_flight text", false},
		{tok + `(zeroblob(100000), 1, 1)`, "model blob", false},
		{tok + `('` + strings.Repeat("bad", 40_000) + `', 1, -1)`, "count -1", false},
		{tok + `('bad', 1, '` + strings.Repeat(`\`, 100_000) + `')`, "count text", false},
		{quota + `('` + strings.Repeat("\x01", 100_000) + `', -1, 1, 1)`, "max_rpm -1", true},
	}
	sample, err := os.ReadFile(sqliteSample(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.statement[:min(len(tt.statement), 100)], func(t *testing.T) {
			path := sqlitePath(t)
			if err := os.WriteFile(path, sample, 0o600); err != nil {
				t.Fatal(err)
			}
			sqliteExec(t, path, tt.statement)
			before := sqliteContent(t, path)
			rl := sqliteLimiterWith(t, path, ratelimit.Config{})
			rl.RecordUsage("mine", 1, 2)
			quotas, stats := maps.Clone(rl.Quotas), rl.AllStats()
			err := rl.Load()
			sqliteWantCorrupt(t, err, append(strings.Fields(tt.mentions), path)...)
			if errors.Is(err, ratelimit.ErrInvalidQuota) != tt.invalidQuota {
				t.Errorf("error %v; is it ErrInvalidQuota?", err)
			}
			if !strings.HasPrefix(err.Error(), "load: corrupt state: ") {
				t.Errorf("error %q", err)
			}
			if !maps.Equal(rl.Quotas, quotas) || !maps.Equal(rl.AllStats(), stats) {
				t.Error("the limiter was changed")
			}
			if err := rl.Close(); err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(sqliteContent(t, path), before, bytes.Equal) {
				t.Error("the file was changed")
			}
		})
	}
}

// A value goes bad under a limiter that has the database open.
func TestSQLitePersistOverBadValues(t *testing.T) {
	for _, statement := range []string{
		`UPDATE daily SET day_count = 'x'`,
		`UPDATE daily SET day_start = x'00'`,
		`UPDATE daily SET day_tokens = 'x'`,
		`INSERT INTO requests (rowid, model, ts) VALUES (9223372036854775807, 'm', 1)`,
	} {
		path := sqlitePath(t)
		rl := sqliteLimiter(t, path)
		rl.RecordUsage("m", 1, 1)
		sqlitePersist(t, rl)
		sqliteExec(t, path, statement)
		rl.RecordUsage("m", 1, 1)
		sqliteWantCorrupt(t, rl.Persist(), path)
		if got := sqliteQuery(t, path, `SELECT count(*) FROM tokens`); !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s: tokens = %q after a failed Persist", statement, got)
		}
	}
}
