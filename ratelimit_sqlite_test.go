// The contract on SQLite: the document's chapters on the database and on migration, row by row.

package ratelimit_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Tables, columns, indexes and the journal are those of the document, and what this
// version adds to them.
func TestSQLiteSchemaIsTheDocumented(t *testing.T) {
	documented, ours := sqlitePath(t), sqlitePath(t)
	sqliteExec(t, documented, sqliteDocumented, sqliteAdded)
	sqliteLimiter(t, ours)
	sqliteWantSchema(t, ours, documented)
	if got := sqliteQuery(t, ours, `PRAGMA journal_mode`); !slices.Equal(got, []string{"wal"}) {
		t.Errorf("journal_mode = %q", got)
	}
	if got := sqliteQuery(t, ours, `PRAGMA user_version`); !slices.Equal(got, []string{"1"}) {
		t.Errorf("user_version = %q", got)
	}
}

// Persist waits for another program's transaction (busy_timeout), and one connection of
// ours lets it read meanwhile (WAL).
func TestSQLitePersistWaitsForAnotherWriter(t *testing.T) {
	path := sqlitePath(t)
	rl := sqliteLimiter(t, path)
	rl.RecordUsage("m", 1, 1)
	other := sqliteRaw(t, path)
	exec := func(db *sql.DB, statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(other, `BEGIN IMMEDIATE`)
	persisted := make(chan error, 1)
	go func() { persisted <- rl.Persist() }()
	if got := sqliteQuery(t, path, `SELECT count(*) FROM requests`); !slices.Equal(got, []string{"0"}) {
		t.Errorf("a reader finds %q", got)
	}
	select {
	case err := <-persisted:
		t.Fatalf("Persist did not wait: %v", err)
	case <-time.After(50 * time.Millisecond): // nothing tells that it waits
	}
	exec(other, `COMMIT`)
	if err := <-persisted; err != nil {
		t.Error(err)
	}
	if got := sqliteQuery(t, path, `SELECT count(*) FROM requests`); !slices.Equal(got, []string{"1"}) {
		t.Errorf("after Persist a reader finds %q", got)
	}
}

// Times are UnixNano, and a second Persist doubles nothing.
func TestSQLiteStoresNanoseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := sqlitePath(t)
		rl := sqliteLimiterWith(t, path, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3}}})
		time.Sleep(123_456_789)
		now := time.Now().UnixNano()
		rl.RecordUsage("m", 40, 2)
		sqlitePersist(t, rl)
		sqlitePersist(t, rl)
		for query, want := range map[string]string{
			`SELECT model, max_rpm, max_tpm, max_rpd FROM quotas`: "m 1 2 3",
			`SELECT model, ts FROM requests`:                      fmt.Sprint("m ", now),
			`SELECT model, ts, count FROM tokens`:                 fmt.Sprint("m ", now, " 42"),
			`SELECT model, day_start, day_count FROM daily`:       fmt.Sprint("m ", now, " 1"),
		} {
			if got := sqliteQuery(t, path, query); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
	})
}

// Migration: quotas and usage go over, the YAML file stays, and a second time is as the first.
func TestMigrationIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, path := filepath.Join(t.TempDir(), "state.yaml"), sqlitePath(t)
		from := yamlLimiter(t, source)
		from.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 2})
		from.RecordUsage("m", 10, 20)
		yamlPersist(t, from)
		before := yamlRead(t, source)
		for range 2 {
			if err := ratelimit.MigrateYAMLToSQLite(source, path); err != nil {
				t.Fatal(err)
			}
			to := sqliteLimiter(t, path)
			sqliteLoad(t, to)
			s := to.Stats("m")
			if s.RPM != 1 || s.TPM != 30 || s.RPD != 1 || s.MaxRPM != 2 || !s.DayStart.Equal(time.Now()) {
				t.Errorf("the database holds %+v", s)
			}
			to.RecordUsage("m", 1, 1) // the next migration overwrites it
			sqlitePersist(t, to)
		}
		if yamlRead(t, source) != before {
			t.Error("the YAML file changed")
		}
	})
}
