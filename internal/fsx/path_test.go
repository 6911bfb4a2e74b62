package fsx

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestCheckPath(t *testing.T) {
	for path, ok := range map[string]bool{"": false, "a\x00b": false, "a": true, "/a/b c": true, ":memory:": true} {
		if err := CheckPath(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestAbsoluteOutlivesTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := Absolute("state.yaml")
	t.Chdir(t.TempDir())
	if want := filepath.Join(dir, "state.yaml"); path != want {
		t.Errorf("%s, want %s", path, want)
	}
	if again := Absolute(path); again != path {
		t.Errorf("the absolute path of %s is %s", path, again)
	}
}

func TestTarget(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(in("file"), nil, 0o600), os.Mkdir(in("folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"to-file": "file", "to-missing": "missing", "to-link": "to-file", "to-folder": "folder",
		"absolute": in("file"), "loop": "loop", "inside": "folder",
	} {
		if err := os.Symlink(target, in(link)); err != nil {
			t.Skip(err)
		}
	}
	for name, want := range map[string]string{
		"file": "file", "missing": "missing", "to-file": "file", "to-missing": "missing", "to-link": "file",
		"absolute": "file", "inside/state.yaml": "folder/state.yaml", "no/folder": "no/folder",
	} {
		if got, err := Target(in(name)); err != nil || got != in(want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"folder", "to-folder"} {
		if got, err := Target(in(name)); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if got, err := Target(in("loop")); err == nil {
		t.Errorf("the loop leads to %s", got)
	}
}
