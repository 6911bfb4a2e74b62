package fsx

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A sweep takes the temporary files of crashed writers, and nothing else.
func TestSweepTemps(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "state.yaml")
	left := filepath.Join(dir, TempPrefix(target)+"1")
	stay := []string{target, filepath.Join(dir, ".other.tmp-1"), filepath.Join(dir, "state.yaml.tmp-1")}
	for _, name := range append(stay, left) {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * time.Hour) // where a system has no locks, the age tells
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, TempPrefix(target)+"folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	stay = append(stay, folder)
	SweepTemps(target)
	if _, err := os.Lstat(left); err == nil {
		t.Error("the temporary file stays")
	}
	for _, name := range stay {
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
	SweepTemps(filepath.Join(dir, "no", "folder"))
	SweepTemps(dir)
}

func TestSweepTempsLeavesLiveWritersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the age alone tells")
	}
	target := filepath.Join(t.TempDir(), "state.yaml")
	err := Replace(target, func(w io.Writer) error {
		SweepTemps(target)
		_, err := io.WriteString(w, "new")
		return err
	})
	if text, _ := os.ReadFile(target); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
}
