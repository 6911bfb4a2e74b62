//go:build !nosqlite

// SQLite files that are damaged, of another program, or hold bad values: what a limiter does.

package persist

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// sqliteSample makes a database of some pages and closes it.
func sqliteSample(t testing.TB) (path string) {
	t.Helper()
	sample, err := sqliteSampleBytes()
	path = statefile.Path(t)
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

// The constructor refuses damaged and foreign files and leaves them as they are. Which these are is
// tested in internal/sqlitestate.
func TestSQLiteRefusesDamagedFiles(t *testing.T) {
	for name, tt := range map[string]struct{ content, mentions string }{
		"garbage":                       {strings.Repeat("garbage ", 5000), "not a database"},
		"a database of another program": {"", "another program"},
	} {
		path := statefile.Path(t)
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if tt.content == "" {
			statefile.Exec(t, path, `CREATE TABLE customers (name TEXT)`)
		}
		before := statefile.Contents(t, path)
		rl, err := ratelimit.NewWithSQLite(path)
		if err == nil {
			rl.Close()
		}
		statefile.WantCorrupt(t, err, tt.mentions, path)
		if !strings.HasPrefix(err.Error(), "new limiter: open database: corrupt state: ") {
			t.Errorf("%s: error %q", name, err)
		}
		if !maps.EqualFunc(statefile.Contents(t, path), before, bytes.Equal) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// Whichever value is bad, the limiter and the file stay as they were.
func TestSQLiteLoadRefusesBadValues(t *testing.T) {
	for _, tt := range []struct {
		statement, mentions string
		invalidQuota        bool
	}{
		{`INSERT INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES ('bad', -1, 0, 0)`, "max_rpm -1", true},
		{`INSERT INTO tokens (model, ts, count) VALUES ('bad', 1, 'lots')`, "count lots", false},
		{`INSERT INTO cooldowns VALUES ('bad', 'soon')`, "until soon", false},
	} {
		path := sqliteSample(t)
		statefile.Exec(t, path, tt.statement)
		before := statefile.Contents(t, path)
		rl := sqliteLimiterWith(t, path, ratelimit.Config{})
		rl.RecordUsage("mine", 1, 2)
		quotas, stats := maps.Clone(rl.Quotas), rl.AllStats()
		err := rl.Load()
		statefile.WantCorrupt(t, err, append(strings.Fields(tt.mentions), path)...)
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
		if !maps.EqualFunc(statefile.Contents(t, path), before, bytes.Equal) {
			t.Error("the file was changed")
		}
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
		path := statefile.Path(t)
		rl := sqliteLimiter(t, path)
		rl.RecordUsage("m", 1, 1)
		limitertest.Save(t, rl)
		statefile.Exec(t, path, statement)
		rl.RecordUsage("m", 1, 1)
		statefile.WantCorrupt(t, rl.Persist(), path)
		if got := statefile.Query(t, path, `SELECT count(*) FROM tokens`); !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s: tokens = %q after a failed Persist", statement, got)
		}
	}
}
