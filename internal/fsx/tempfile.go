package fsx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// createTemp creates a temporary file beside target, which sweeps leave alone until it is
// closed.
func createTemp(target string) (*os.File, error) {
	for range 100 {
		f, err := os.CreateTemp(filepath.Dir(target), TempPrefix(target)+"*")
		if err != nil {
			return nil, err
		}
		if claimTemp(f) {
			return f, nil
		}
		// A sweep was faster. It removes the file.
		f.Close()
	}
	return nil, fmt.Errorf("create temporary file beside %s: another process removed it", target)
}

// TempPrefix returns how the names of the temporary files for target begin, without their
// folder, which is that of target.
func TempPrefix(target string) string { return "." + filepath.Base(target) + ".tmp-" }

// SweepTemps removes the temporary files that crashed writers of path left. It ignores
// errors: a later sweep removes what this one cannot.
func SweepTemps(path string) {
	target, err := Target(path)
	if err != nil {
		return
	}
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && strings.HasPrefix(entry.Name(), TempPrefix(target)) {
			SweepTemp(filepath.Join(dir, entry.Name()))
		}
	}
}
