package fsx

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A failure at any step leaves the file and its folder as they were.
func TestReplaceLeavesNothingBehindWhenItFails(t *testing.T) {
	broken := errors.New("disk full")
	tests := []struct {
		name  string
		write func(w io.Writer) error
	}{
		{"the write fails", func(w io.Writer) error {
			io.WriteString(w, "half")
			return broken
		}},
		{"the rename fails", func(w io.Writer) error { return os.Remove(w.(*os.File).Name()) }},
		{"the sync fails", func(w io.Writer) error {
			return w.(*os.File).Close()
		}},
	}
	for _, test := range tests {
		for way, replace := range map[string]func(string, func(io.Writer) error) error{
			"Replace": Replace, "ReplaceKeepingOld": ReplaceKeepingOld,
		} {
			t.Run(way+", "+test.name, func(t *testing.T) {
				dir := t.TempDir()
				target := filepath.Join(dir, "state.yaml")
				if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := replace(target, test.write); err == nil {
					t.Error("no error")
				}
				if data, err := os.ReadFile(target); err != nil || string(data) != "old" {
					t.Errorf("the file holds %q, %v", data, err)
				}
				if entries, _ := os.ReadDir(dir); len(entries) != 1 {
					t.Errorf("the folder holds %v", entries)
				}
			})
		}
	}
}

// Files that are kept aside at the same moment get different names.
func TestKeepAsideNeverTakesAName(t *testing.T) {
	target := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := keepAside(target); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(target)); len(entries) != 51 {
		t.Errorf("%d files, want 51", len(entries))
	}
	undo, err := keepAside(target)
	if err != nil {
		t.Fatal(err)
	}
	undo()
	if entries, _ := os.ReadDir(filepath.Dir(target)); len(entries) != 51 {
		t.Errorf("%d files after it was undone, want 51", len(entries))
	}
}
