//go:build !nosqlite

// MigrateYAMLToSQLite.

package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

const migrateYAML = `quotas:
    m:
        max_rpm: 10
        max_tpm: 1000
        max_rpd: 100
        max_itpm: 11
        max_otpm: 12
        max_tpd: 13
        max_in_flight: 14
        day_zone: Asia/Tokyo
        burst: 2.5s
        adaptive_floor_rpm: 15
        adaptive_ceiling_rpm: 16
        adaptive_floor_in_flight: 17
        adaptive_ceiling_in_flight: 18
    "odd \x00 name":
        max_rpm: 1
        max_tpm: 0
        max_rpd: 0
state:
    m:
        requests:
            - 2026-02-20T14:32:01.123456789Z
            - 2026-02-20T14:32:02Z
        tokens:
            - time: 2026-02-20T14:32:01.123456789Z
              count: 1500
              input: 700
            - time: 2026-02-20T14:32:02Z
              count: 0
        day_start: 2026-02-20T00:00:00Z
        day_count: 42
        day_tokens: 4200
    "never used":
        requests: []
        tokens: []
        day_start: 0001-01-01T00:00:00Z
        day_count: 0
cooldowns:
    m:
        until: 2126-02-20T14:32:01.123456789Z
    "over":
        until: 2026-02-20T14:32:01.123456789Z
found:
    m:
        rate_level: 5000000000
        slots_level: 6000
        slots_streak: 1
        at: 1771597921123456789
`

// migrateContent is all that a database holds.
func migrateContent(t *testing.T, path string) string {
	t.Helper()
	var all []string
	for _, query := range []string{
		`SELECT * FROM quotas ORDER BY 1`, `SELECT * FROM requests ORDER BY 1, 2`,
		`SELECT * FROM tokens ORDER BY 1, 2, 3`, `SELECT * FROM daily ORDER BY 1`,
		`SELECT * FROM cooldowns ORDER BY 1`, `SELECT * FROM quota_bounds ORDER BY 1`, `SELECT * FROM found ORDER BY 1`, `SELECT * FROM pools ORDER BY 1`,
		`SELECT * FROM quota_budgets ORDER BY 1`, `SELECT * FROM spend ORDER BY 1`,
	} {
		all = append(all, statefile.Query(t, path, query)...)
	}
	return strings.Join(all, "\n")
}

func migrateWantContent(t *testing.T, path string) {
	t.Helper()
	start := time.Date(2026, 2, 20, 14, 32, 1, 123456789, time.UTC).UnixNano()
	next := time.Date(2026, 2, 20, 14, 32, 2, 0, time.UTC).UnixNano()
	want := fmt.Sprint("m 10 1000 100 11 12 13 14 Asia/Tokyo 2500000000\nodd \x00 name 1 0 0 0 0 0 0  0\n",
		"m ", start, "\nm ", next, "\n",
		"m ", start, " 1500 700\nm ", next, " 0 0\n",
		"m ", time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC).UnixNano(), " 42 4200\nnever used -9223372036854775808 0 0\n",
		"m ", start+int64(36524*24*time.Hour), "\nover ", start, "\n",
		"m 15 16 17 18\n",
		`m {"rate":{"level":5000000000},"slots":{"level":6000,"streak":1},"at":1771597921123456789}`)
	if got := migrateContent(t, path); got != want {
		t.Errorf("the database holds\n%s\nwant\n%s", got, want)
	}
}

func TestMigrate(t *testing.T) {
	for name, target := range map[string]func(t *testing.T, path string){
		"to a new file":           func(*testing.T, string) {},
		"into a new folder":       func(t *testing.T, path string) { os.Remove(filepath.Dir(path)) },
		"to a file of zero bytes": func(t *testing.T, path string) { os.WriteFile(path, nil, 0o600) },
		"to one of the original":  func(t *testing.T, path string) { statefile.Exec(t, path, statefile.Documented) },
		"over other content": func(t *testing.T, path string) {
			rl := sqliteLimiterWith(t, path, ratelimit.Config{})
			rl.RecordUsage("m", 5, 5)
			rl.RecordUsage("other", 5, 5)
			if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
				t.Fatal(err)
			}
		},
		"over itself": func(t *testing.T, path string) {
			source := filepath.Join(t.TempDir(), "state.yaml")
			if err := os.WriteFile(source, []byte(migrateYAML), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := ratelimit.MigrateYAMLToSQLite(source, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, path := filepath.Join(t.TempDir(), "state.yaml"), statefile.Path(t)
			if err := os.WriteFile(source, []byte(migrateYAML), 0o600); err != nil {
				t.Fatal(err)
			}
			target(t, path)
			if err := ratelimit.MigrateYAMLToSQLite(source, path); err != nil {
				t.Fatal(err)
			}
			migrateWantContent(t, path)
			if data, err := os.ReadFile(source); err != nil || string(data) != migrateYAML {
				t.Errorf("the source was changed: %v", err)
			}
			if got := statefile.Names(t, filepath.Dir(path)); !slices.Equal(got, []string{filepath.Base(path)}) {
				t.Errorf("files %q", got)
			}
		})
	}
}

// What was used goes over, and counts on.
func TestMigrateWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, path := filepath.Join(t.TempDir(), "state.yaml"), statefile.Path(t)
		from := limitertest.YAML(t, source)
		from.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 2})
		from.RecordUsage("m", 10, 20)
		time.Sleep(30 * time.Second)
		from.RecordUsage("m", 1, 2)
		if err := from.Persist(); err != nil {
			t.Fatal(err)
		}
		if err := ratelimit.MigrateYAMLToSQLite(source, path); err != nil {
			t.Fatal(err)
		}
		to := sqliteLimiter(t, path)
		limitertest.Load(t, to)
		if got, want := to.Stats("m"), from.Stats("m"); !got.DayStart.Equal(want.DayStart) || got.RPM != 2 || got.TPM != 33 || got.RPD != 2 || got.MaxRPM != 2 {
			t.Errorf("%+v, want %+v", got, want)
		}
		if to.CanSend("m", 1) {
			t.Error("the quota is used up")
		}
		time.Sleep(30*time.Second + 1)
		if !to.CanSend("m", 1) {
			t.Error("the first charge is over")
		}
		sqliteWantStored(t, to, path)
	})
}

// A limiter that has the database open goes on, and doubles nothing.
func TestMigrateUnderALimiter(t *testing.T) {
	source, path := filepath.Join(t.TempDir(), "state.yaml"), statefile.Path(t)
	if err := os.WriteFile(source, []byte(migrateYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	rl := sqliteLimiter(t, path)
	rl.RecordUsage("m", 5, 5)
	limitertest.Save(t, rl)
	if err := ratelimit.MigrateYAMLToSQLite(source, path); err != nil {
		t.Fatal(err)
	}
	migrateWantContent(t, path)
	rl.RecordUsage("m", 7, 0)
	limitertest.Save(t, rl)
	if got := statefile.Query(t, path, `SELECT count FROM tokens WHERE count < 1000 ORDER BY 1`); !slices.Contains(got, "7") || slices.Contains(got, "10") {
		t.Errorf("tokens %q: the migration replaced what was there, and the next charge adds to it", got)
	}
	limitertest.Load(t, rl)
	sqliteWantStored(t, rl, path)
}

func TestMigrateFails(t *testing.T) {
	valid := func(t *testing.T, path string) {
		rl := sqliteLimiter(t, path)
		rl.RecordUsage("kept", 1, 1)
		if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write := func(content string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	folder := func(t *testing.T, path string) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(*testing.T, string) {}
	sql := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { statefile.Exec(t, path, statements...) }
	}
	tests := []struct {
		name           string
		source, target func(t *testing.T, path string)
		want           []error
	}{
		{"source is missing", nothing, valid, []error{fs.ErrNotExist}},
		{"source is missing, and target", nothing, nothing, []error{fs.ErrNotExist}},
		{"source is a folder", folder, valid, nil},
		{"source is no YAML", write("\x00\x01"), valid, []error{ratelimit.ErrCorruptState}},
		{"source is cut off", write(migrateYAML[:strings.Index(migrateYAML, "count: 1500")-20]), valid, []error{ratelimit.ErrCorruptState}},
		{"source has a negative limit", write(strings.Replace(migrateYAML, "max_rpm: 10", "max_rpm: -10", 1)), valid,
			[]error{ratelimit.ErrCorruptState, ratelimit.ErrInvalidQuota}},
		{"source has a negative count", write(strings.Replace(migrateYAML, "count: 1500", "count: -1", 1)), valid, []error{ratelimit.ErrCorruptState}},
		{"source is bad, and target is missing", write("state: 5"), nothing, []error{ratelimit.ErrCorruptState}},
		{"source is a database", valid, valid, []error{ratelimit.ErrCorruptState}},
		{"target is a folder", write(migrateYAML), folder, nil},
		{"target is no database", write(migrateYAML), write("quotas: {}\n"), []error{ratelimit.ErrCorruptState}},
		{"target is of another program", write(migrateYAML), sql(`CREATE TABLE customers (name TEXT)`), []error{ratelimit.ErrCorruptState}},
		{"target is of a newer version", write(migrateYAML), sql(statefile.Documented, `PRAGMA user_version = 9`), []error{ratelimit.ErrCorruptState}},
		{"target does not take a row", write(migrateYAML), sql(`PRAGMA journal_mode=WAL`,
			strings.Replace(statefile.Documented, "day_count INTEGER NOT NULL DEFAULT 0", "day_count INTEGER NOT NULL DEFAULT 0 CHECK (day_count <> 42)", 1),
			`INSERT INTO tokens VALUES ('kept', 1, 2)`), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source, target := filepath.Join(t.TempDir(), "state.yaml"), statefile.Path(t)
			tt.source(t, source)
			tt.target(t, target)
			read := func() map[string][]byte {
				if info, err := os.Stat(target); err == nil && info.IsDir() {
					return nil
				}
				return statefile.Contents(t, target)
			}
			before := read()
			err := ratelimit.MigrateYAMLToSQLite(source, target)
			if err == nil || !strings.HasPrefix(err.Error(), "migrate: ") || len(err.Error()) > 1024 {
				t.Fatalf("error %v", err)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			}
			if after := read(); !maps.EqualFunc(after, before, bytes.Equal) {
				t.Errorf("the target was changed: %d files, were %d", len(after), len(before))
			}
		})
	}
	for name, paths := range map[string][2]string{"no source": {"", "x.db"}, "no target": {"state.yaml", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(migrateYAML)(t, "state.yaml")
			write("bystander")(t, "-wal")
			if err := ratelimit.MigrateYAMLToSQLite(paths[0], paths[1]); err == nil {
				t.Error("no error")
			}
			if got := statefile.Names(t, "."); !slices.Equal(got, []string{"-wal", "state.yaml"}) {
				t.Errorf("files %q", got)
			}
		})
	}
}
