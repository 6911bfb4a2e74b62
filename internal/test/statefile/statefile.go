// Package statefile has what tests do to state files of limiters, and look for in them, without a
// limiter: they write, damage and read YAML files and SQLite databases as another program would.
// The tests of the root, of persist, sqlitestate and yamlfile use it; no program does.
package statefile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// RealTemp has no symbolic link on the way to the temporary files, as macOS has one: errors name
// the file that the link leads to, and tests compare that with their paths.
func RealTemp() {
	if temp, err := filepath.EvalSymlinks(os.TempDir()); err == nil {
		os.Setenv("TMPDIR", temp)
	}
}

// Names returns the names of all files in a folder.
func Names(t testing.TB, dir string) []string {
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

// Contents returns the files in the folder of path, by name.
func Contents(t testing.TB, path string) map[string][]byte {
	t.Helper()
	contents := make(map[string][]byte)
	for _, name := range Names(t, filepath.Dir(path)) {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = data
	}
	return contents
}

// Litter lists what is in the folder of path beside path.
func Litter(t testing.TB, path string) (names []string) {
	t.Helper()
	for _, name := range Names(t, filepath.Dir(path)) {
		if name != filepath.Base(path) {
			names = append(names, name)
		}
	}
	return names
}

// Symlink returns a symbolic link to a path, and skips a test where there is none to be had.
func Symlink(t testing.TB, to string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
	return path
}

// Write writes a YAML file into a folder of its own and returns its path.
func Write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Read returns what is in a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Content returns what Persist wrote to a YAML file between the first line and the last.
func Content(t testing.TB, path string) string {
	t.Helper()
	lines := slices.Collect(strings.Lines(Read(t, path)))
	return strings.Join(lines[1:len(lines)-1], "")
}

// Sample is the YAML file of the documentation.
const Sample = `quotas:
  gemini-3-pro-preview:
    max_rpm: 150
    max_tpm: 1000000
    max_rpd: 1000
state:
  gemini-3-pro-preview:
    requests:
      - 2026-02-20T14:32:01.123456789Z
    tokens:
      - time: 2026-02-20T14:32:01.123456789Z
        count: 1500
    day_start: 2026-02-20T00:00:00Z
    day_count: 42
`
