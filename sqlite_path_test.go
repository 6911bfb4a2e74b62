//go:build !nosqlite

// SQLite: which paths are taken, and what is made beside them.

package ratelimit_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sqliteFiles returns the names of all files in a folder.
func sqliteFiles(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestSQLitePathIsAPath(t *testing.T) {
	for _, name := range []string{
		"state.db",
		"x.db?_pragma=journal_mode(OFF)",
		"x.db?mode=memory&cache=shared",
		"question?mark.db",
		"hash#mark.db",
		"%41.db",
		"100%",
		"a b\tc.db",
		":memory:",
		"file:x.db",
		"file::memory:?cache=shared",
		"naïve ☃.db",
		"\xff\xfe.db",
		"new\nline.db",
		"'quoted'.db",
		`back\slash.db`,
		"a&b=c;d.db",
		"+plus+.db",
		"-dash",
		strings.Repeat("long", 40),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			rl := sqliteLimiter(t, filepath.Join(name, name)) // in a folder of that name too
			rl.RecordUsage("m", 1, 1)
			t.Chdir(t.TempDir()) // a program may change its folder later
			sqlitePersist(t, rl)
			if err := rl.Close(); err != nil {
				t.Fatal(err)
			}
			for folder, want := range map[string][]string{
				".": {}, dir: {name}, filepath.Join(dir, name): {name},
			} {
				if got := sqliteFiles(t, folder); !slices.Equal(got, want) {
					t.Errorf("files %q in %s, want %q", got, folder, want)
				}
			}
			again := sqliteLimiter(t, filepath.Join(dir, name, name))
			sqliteLoad(t, again)
			if s := again.Stats("m"); s.RPM != 1 {
				t.Errorf("read back: %+v", s)
			}
		})
	}
}

func TestSQLiteBadPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("file", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"empty":                   "",
		"with a NUL":              "a\x00b",
		"a folder":                "folder",
		"a folder, with a slash":  "folder/",
		"in a file":               "file/x.db",
		"a name that is too long": strings.Repeat("x", 300),
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
			if got := sqliteFiles(t, dir); !slices.Equal(got, []string{"file", "folder"}) {
				t.Errorf("it left files: %q", got)
			}
		})
	}
}

func TestSQLiteMakesParentFolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "state.db")
	sqliteLimiter(t, path)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestSQLiteFileOfZeroBytesIsFresh(t *testing.T) {
	path := sqlitePath(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rl := sqliteLimiter(t, path)
	rl.RecordUsage("m", 1, 1)
	sqliteWantStored(t, rl, path)
}

func TestSQLiteFollowsSymbolicLinks(t *testing.T) {
	for _, exists := range []bool{true, false} {
		dir := t.TempDir()
		target, link := filepath.Join(dir, "real", "state.db"), filepath.Join(dir, "link.db")
		if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("real", "state.db"), link); err != nil {
			t.Skip(err)
		}
		if exists {
			sqliteLimiter(t, target).Close()
		}
		one, other := sqliteLimiter(t, link), sqliteLimiter(t, target)
		one.RecordUsage("m", 1, 0)
		other.RecordUsage("m", 1, 0)
		sqlitePersist(t, one)
		sqlitePersist(t, other)
		sqliteLoad(t, one)
		if s := one.Stats("m"); s.RPM != 2 {
			t.Errorf("through link and target: %+v", s)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link is gone: %v %v", info, err)
		}
		if got := sqliteFiles(t, dir); !slices.Equal(got, []string{"link.db", "real"}) {
			t.Errorf("files beside the link: %q", got)
		}
		if info, err := os.Stat(target); err != nil || info.Mode().Perm()&0o077 != 0 && !exists {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
}
