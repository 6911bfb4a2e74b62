//go:build !nosqlite

package sqlitelog

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Life files are told by their names from the other files beside a database, whose name may begin
// with a dot.
func TestLives(t *testing.T) {
	for _, base := range []string{"s.db", ".s.db"} {
		folder := t.TempDir()
		for _, name := range []string{
			base + ".000000000000004d.life", "." + base + ".000000000000004e.life.tmp-123",
			base, base + "-wal", base + ".lock", base + ".life", base + ".4f.life", base + ".000000000000004f.lif",
			base + ".000000000000004f.life.tmp-1", base + ".000000000000004f.life-old", base + ".00000000000000xy.life",
			"x" + base + ".000000000000004f.life", "." + base + ".000000000000004f.life",
		} {
			if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(folder, base+".0000000000000050.life"), 0o700); err != nil {
			t.Fatal(err)
		}
		processes, temps := (&Log{path: filepath.Join(folder, base)}).lives()
		want := []string{filepath.Join(folder, "."+base+".000000000000004e.life.tmp-123")}
		if !slices.Equal(processes, []int64{0x4d}) || !slices.Equal(temps, want) {
			t.Errorf("%s: processes %x, want 4d; temporary files %q, want %q", base, processes, temps, want)
		}
	}
}
