//go:build !nosqlite

// The contract on SQLite: the document's chapters on the database and on migration, row by row.

package persist

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// Tables, columns, indexes and the journal are those of the document, and what this
// version adds to them.
func TestSQLiteSchemaIsTheDocumented(t *testing.T) {
	documented, ours := statefile.Path(t), statefile.Path(t)
	statefile.Exec(t, documented, statefile.Documented, statefile.Added)
	sqliteLimiter(t, ours)
	statefile.WantSchema(t, ours, documented)
	if got := statefile.Query(t, ours, `PRAGMA journal_mode`); !slices.Equal(got, []string{"wal"}) {
		t.Errorf("journal_mode = %q", got)
	}
	if got := statefile.Query(t, ours, `PRAGMA user_version`); !slices.Equal(got, []string{"1"}) {
		t.Errorf("user_version = %q", got)
	}
}

// Persist waits for another program's transaction (busy_timeout), and one connection of
// ours lets it read meanwhile (WAL).
func TestSQLitePersistWaitsForAnotherWriter(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiter(t, path)
	rl.RecordUsage("m", 1, 1)
	other := statefile.Open(t, path)
	exec := func(db *sql.DB, statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(other, `BEGIN IMMEDIATE`)
	persisted := make(chan error, 1)
	go func() { persisted <- rl.Persist() }()
	if got := statefile.Query(t, path, `SELECT count(*) FROM requests`); !slices.Equal(got, []string{"0"}) {
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
	if got := statefile.Query(t, path, `SELECT count(*) FROM requests`); !slices.Equal(got, []string{"1"}) {
		t.Errorf("after Persist a reader finds %q", got)
	}
}

// Migration: quotas and usage go over, the YAML file stays, and a second time is as the first.
func TestMigrationIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, path := filepath.Join(t.TempDir(), "state.yaml"), statefile.Path(t)
		from := limitertest.YAML(t, source)
		from.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 2})
		from.RecordUsage("m", 10, 20)
		limitertest.Save(t, from)
		before := statefile.Read(t, source)
		for range 2 {
			if err := ratelimit.MigrateYAMLToSQLite(source, path); err != nil {
				t.Fatal(err)
			}
			to := sqliteLimiter(t, path)
			limitertest.Load(t, to)
			s := to.Stats("m")
			if s.RPM != 1 || s.TPM != 30 || s.RPD != 1 || s.MaxRPM != 2 || !s.DayStart.Equal(time.Now()) {
				t.Errorf("the database holds %+v", s)
			}
			to.RecordUsage("m", 1, 1) // the next migration overwrites it
			limitertest.Save(t, to)
		}
		if statefile.Read(t, source) != before {
			t.Error("the YAML file changed")
		}
	})
}

// Times are UnixNano, and a second Persist doubles nothing.
func TestSQLiteStoresUnixNano(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := statefile.Path(t)
		rl := sqliteLimiterWith(t, path, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"a b": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3, MaxITPM: 4, MaxOTPM: 5, MaxTPD: 6, MaxInFlight: 7, DayZone: "Asia/Tokyo", Burst: 8,
				AdaptiveFloorRPM: 9, AdaptiveCeilingRPM: 10, AdaptiveFloorInFlight: 11, AdaptiveCeilingInFlight: 12}, "free": {},
		}})
		time.Sleep(123_456_789)
		first := time.Now().UnixNano()
		rl.RecordUsage("a b", 40, 2)
		time.Sleep(1 * time.Nanosecond)
		rl.RecordUsage("a b", 0, 0)
		limitertest.Save(t, rl)
		limitertest.Save(t, rl)
		for query, want := range map[string][]string{
			`SELECT * FROM quotas ORDER BY model`: {"a b 1 2 3 4 5 6 7 Asia/Tokyo 8", "free 0 0 0 0 0 0 0  0"},
			`SELECT * FROM requests ORDER BY ts`:  {fmt.Sprint("a b ", first), fmt.Sprint("a b ", first+1)},
			`SELECT * FROM tokens ORDER BY ts`:    {fmt.Sprint("a b ", first, " 42 40"), fmt.Sprint("a b ", first+1, " 0 0")},
			`SELECT * FROM daily`:                 {fmt.Sprint("a b ", time.Date(1999, 12, 31, 15, 0, 0, 0, time.UTC).UnixNano(), " 2 42")},
		} {
			if got := statefile.Query(t, path, query); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
	})
}
