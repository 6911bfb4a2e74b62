// Package apitest keeps the public API of the module in api/*.txt, one exported declaration a
// line, and fails when the code differs. Only tests are in it, and nothing imports it.
//
//	go test ./internal/test/apitest -update
//
// writes the files anew.
package apitest

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

const module = "dappco.re/go/core/go-ratelimit"

var update = flag.Bool("update", false, "write api/*.txt from the code")

// A change of the API is a change of these files, which a reviewer sees.
func TestAPI(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	l := newLoader(module, "../../..")
	packages, err := l.publicPackages()
	if err != nil {
		t.Fatal(err)
	}
	kept := []string{}
	for _, p := range packages {
		file := apiFile(p)
		kept = append(kept, file)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { checkAPI(t, l, p, file) })
	}
	files, err := filepath.Glob("../../../api/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(kept, file) {
			t.Errorf("%s belongs to no package", file)
		}
	}
}

// apiFile returns the file that keeps a package's API, named after the path within the module.
func apiFile(importPath string) string {
	name := "ratelimit"
	if inside, found := strings.CutPrefix(importPath, module+"/"); found {
		name = strings.ReplaceAll(inside, "/", "_")
	}
	return filepath.FromSlash(path.Join("../../../api", name+".txt"))
}

// checkAPI compares a package with its file, or writes the file.
func checkAPI(t *testing.T, l *loader, importPath, file string) {
	p, err := l.Import(importPath)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := declarations(p)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if different := difference(strings.Split(strings.TrimSpace(string(text)), "\n"), lines); different != nil {
		t.Errorf("the API of %s differs from api/%s (- only in the file, + only in the code):\n%s\n"+
			"if that is meant: go test ./internal/test/apitest -update",
			importPath, filepath.Base(file), strings.Join(different, "\n"))
	}
}

// difference returns the lines that only one of two lists has, in order, with a sign before each.
func difference(file, code []string) (lines []string) {
	for _, line := range file {
		if line = strings.TrimSuffix(line, "\r"); line != "" && !slices.Contains(code, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range code {
		if !slices.ContainsFunc(file, func(other string) bool { return strings.TrimSuffix(other, "\r") == line }) {
			lines = append(lines, "+ "+line)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return lines
}
