//go:build !nosqlite

package sqlitestate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// quotasWith is the original's table of quotas with other columns behind
// its own.
func quotasWith(columns string) string {
	return `CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0, max_tpm INTEGER NOT NULL DEFAULT 0,
		max_rpd INTEGER NOT NULL DEFAULT 0, ` + columns + `)`
}

func TestRefusesDamagedFiles(t *testing.T) {
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
		return func(t *testing.T, path string) { statefile.Exec(t, path, statements...) }
	}
	fresh := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			statefile.Exec(t, path, statements...)
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
		{"of a newer version", run(`PRAGMA user_version = 5`), "format 5"},
		{"of a negative version", run(`PRAGMA user_version = -1`), "format -1"},
		{"empty, of a newer version", fresh(`PRAGMA user_version = 5`), "format 5"},

		{"a trigger on a table", run(`CREATE TRIGGER evil AFTER INSERT ON tokens BEGIN DELETE FROM quotas; END`), "tokens"},
		{"a trigger, in other letters", run(`CREATE TRIGGER evil AFTER INSERT ON TOKENS BEGIN DELETE FROM quotas; END`), "tokens"},
		{"a view in place of a table", without("daily", `CREATE VIEW daily AS SELECT 'm' AS model, 0 AS day_start, 0 AS day_count`), "daily"},
		{"a virtual table in place of a table", without("requests", `CREATE VIRTUAL TABLE requests USING fts5(model, ts)`), "requests"},
		{"a table without rowid", without("daily", `CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID`), "daily"},
		{"a table without a column", without("tokens", `CREATE TABLE tokens (model TEXT NOT NULL, ts INTEGER NOT NULL)`), "tokens"},
		{"a table with one more column", without("requests", `CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL, more TEXT NOT NULL)`), "requests"},
		{"a column that is ours, of another type", without("daily",
			`CREATE TABLE daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, day_count INTEGER NOT NULL, day_tokens TEXT NOT NULL)`), `"day_tokens"`},
		{"a zone that is no text", without("quotas", quotasWith(`day_zone INTEGER`)), `"day_zone"`},
		{"one of our columns and one that is not", without("quotas", quotasWith(`max_itpm INTEGER NOT NULL DEFAULT 0, max_xtpm INTEGER NOT NULL DEFAULT 0`)), `"max_xtpm"`},
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
			path := sample(t)
			tt.damage(t, path)
			before := statefile.Contents(t, path)
			db, err := Open(path, Formats{})
			if err == nil {
				db.Close()
			}
			statefile.WantCorrupt(t, err, tt.mentions, path)
			if !strings.HasPrefix(err.Error(), "open database: corrupt state: ") {
				t.Errorf("error %q", err)
			}
			after := statefile.Contents(t, path)
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
func TestLeavesTheWALOfAnotherProgram(t *testing.T) {
	path := statefile.Path(t)
	db := statefile.Open(t, path)
	for _, s := range []string{`PRAGMA journal_mode=WAL`, `CREATE TABLE customers (name TEXT)`, `INSERT INTO customers VALUES ('x')`} {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	copied := statefile.Path(t) // as if the program had been killed
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := statefile.Contents(t, copied)
	_, err := Open(copied, Formats{})
	statefile.WantCorrupt(t, err, "another program")
	after := statefile.Contents(t, copied)
	maps.DeleteFunc(after, func(name string, _ []byte) bool { return strings.HasSuffix(name, "-shm") })
	if !maps.EqualFunc(after, before, bytes.Equal) {
		t.Error("its files were changed")
	}
}

// The original makes its tables one by one, and may have been killed in between.
func TestTakesOverWhatWasLeftHalfMade(t *testing.T) {
	path := statefile.Path(t)
	statefile.Exec(t, path, `CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0, max_tpm INTEGER NOT NULL DEFAULT 0, max_rpd INTEGER NOT NULL DEFAULT 0)`,
		`INSERT INTO quotas VALUES ('m', 1, 2, 3)`, `CREATE TABLE requests (model TEXT NOT NULL, ts INTEGER NOT NULL)`,
		fmt.Sprintf(`INSERT INTO requests VALUES ('m', %d)`, time.Now().UnixNano()))
	d := openDB(t, path)
	s := load(t, d)
	if u := s.Usage["m"]; u == nil || len(u.Requests) != 1 || s.Quotas["m"].MaxTPM != 2 {
		t.Errorf("some of the tables: %+v, %v", u, s.Quotas)
	}
	storeCharge(t, d)
	if u := load(t, openDB(t, path)).Usage["m"]; len(u.Requests) != 2 || len(u.Tokens) != 1 || u.DayCount != 1 {
		t.Errorf("and what was stored then: %+v", u)
	}
}
