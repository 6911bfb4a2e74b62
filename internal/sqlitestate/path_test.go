//go:build !nosqlite

package sqlitestate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestPathIsAPath(t *testing.T) {
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
			d, err := Open(filepath.Join(name, name), Formats{}) // in a folder of that name too
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir()) // a program may change its folder later
			storeCharge(t, d)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			for folder, want := range map[string][]string{
				".": {}, dir: {name}, filepath.Join(dir, name): {name},
			} {
				if got := statefile.Names(t, folder); !slices.Equal(got, want) {
					t.Errorf("files %q in %s, want %q", got, folder, want)
				}
			}
			if u := load(t, openDB(t, filepath.Join(dir, name, name))).Usage["m"]; u == nil || len(u.Requests) != 1 {
				t.Errorf("read back: %+v", u)
			}
		})
	}
}

func TestBadPaths(t *testing.T) {
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
			d, err := Open(path, Formats{})
			if err == nil {
				d.Close()
				t.Fatal("no error")
			}
			if errors.Is(err, state.ErrCorrupt) {
				t.Errorf("it is not the state that is corrupt: %v", err)
			}
			if !strings.HasPrefix(err.Error(), "open database: ") || len(err.Error()) > 1024 {
				t.Errorf("error %q", err)
			}
			if got := statefile.Names(t, dir); !slices.Equal(got, []string{"file", "folder"}) {
				t.Errorf("it left files: %q", got)
			}
		})
	}
}

func TestMakesParentFolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "state.db")
	openDB(t, path)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestFileOfZeroBytesIsFresh(t *testing.T) {
	path := statefile.Path(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	storeCharge(t, openDB(t, path))
	if u := load(t, openDB(t, path)).Usage["m"]; u == nil || len(u.Requests) != 1 {
		t.Errorf("read back: %+v", u)
	}
}

func TestFollowsSymbolicLinks(t *testing.T) {
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
			d, err := Open(target, Formats{})
			if err := errors.Join(err, d.Close()); err != nil {
				t.Fatal(err)
			}
		}
		one, other := openDB(t, link), openDB(t, target)
		storeCharge(t, one)
		storeCharge(t, other)
		if u := load(t, one).Usage["m"]; len(u.Requests) != 2 {
			t.Errorf("through link and target: %+v", u)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link is gone: %v %v", info, err)
		}
		if got := statefile.Names(t, dir); !slices.Equal(got, []string{"link.db", "real"}) {
			t.Errorf("files beside the link: %q", got)
		}
		if info, err := os.Stat(target); err != nil || info.Mode().Perm()&0o077 != 0 && !exists {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
}
