//go:build !nosqlite

// SQLite: which paths a limiter takes. More of them are tested in internal/sqlitestate.

package persist

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestSQLitePathIsAPath(t *testing.T) {
	for _, name := range []string{
		"state.db",
		"file::memory:?cache=shared",
		"new\nline.db",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			rl := sqliteLimiter(t, filepath.Join(name, name)) // in a folder of that name too
			rl.RecordUsage("m", 1, 1)
			t.Chdir(t.TempDir()) // a program may change its folder later
			limitertest.Save(t, rl)
			if err := rl.Close(); err != nil {
				t.Fatal(err)
			}
			for folder, want := range map[string][]string{
				".": {}, dir: {name}, filepath.Join(dir, name): {name},
			} {
				if got := statefile.Names(t, folder); !slices.Equal(got, want) {
					t.Errorf("files %q in %s, want %q", got, folder, want)
				}
			}
			again := sqliteLimiter(t, filepath.Join(dir, name, name))
			limitertest.Load(t, again)
			if s := again.Stats("m"); s.RPM != 1 {
				t.Errorf("read back: %+v", s)
			}
		})
	}
}

func TestSQLiteBadPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"empty":    "",
		"a folder": "folder",
	} {
		t.Run(name, func(t *testing.T) {
			rl, err := ratelimit.NewWithSQLite(path)
			if err == nil {
				rl.Close()
				t.Fatal("no error")
			}
			if errors.Is(err, ratelimit.ErrCorruptState) {
				t.Errorf("it is not the state that is corrupt: %v", err)
			}
			if !strings.HasPrefix(err.Error(), "new limiter: open database: ") || len(err.Error()) > 1024 {
				t.Errorf("error %q", err)
			}
			if got := statefile.Names(t, dir); !slices.Equal(got, []string{"folder"}) {
				t.Errorf("it left files: %q", got)
			}
		})
	}
}
