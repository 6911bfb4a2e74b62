package bench

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// golang.org/x/time/rate's own tests pass against limit.TokenBucket. An overlay puts its
// test file, as it is, beside a shim over the TokenBucket, and into the package limit two
// methods that export what those tests call of the insides.
func TestXTimeRateTests(t *testing.T) {
	theirs := filepath.Join(goOutput(t, "list", "-m", "-f", "{{.Dir}}", "golang.org/x/time"), "rate", "rate_test.go")
	ours := goOutput(t, "list", "-f", "{{.Dir}}", "dappco.re/go/core/go-ratelimit/limit")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "testdata", "xtime", "rate", "rate_test.go"): theirs,
		filepath.Join(ours, "xtime_hooks.go"):                            filepath.Join(here, "testdata", "xtime", "limit", "hooks.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}

	arguments := []string{"test", "-count=1", "-json", "-overlay", path}
	if cgoEnabled(t) {
		arguments = append(arguments, "-race")
	}
	output, err := exec.Command("go", append(arguments, "./testdata/xtime/rate")...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	var passed []string
	for line := range bytes.Lines(output) {
		var event struct{ Action, Test string }
		if json.Unmarshal(line, &event) == nil && event.Action == "pass" && event.Test != "" && !strings.Contains(event.Test, "/") {
			passed = append(passed, event.Test)
		}
	}
	slices.Sort(passed)
	want := testsOf(t, theirs)
	if !slices.Equal(passed, want) {
		t.Errorf("passed:\n%v\nwant:\n%v", passed, want)
	}
	if len(passed) < 29 { // as of v0.16.0
		t.Errorf("only %d tests", len(passed))
	}
	t.Logf("%d tests of %s passed", len(passed), theirs)
}

func goOutput(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := exec.Command("go", arguments...).Output()
	if err != nil {
		t.Fatalf("go %v: %v", arguments, err)
	}
	return strings.TrimSpace(string(output))
}

// cgoEnabled reports whether -race can be had.
func cgoEnabled(t *testing.T) bool { return goOutput(t, "env", "CGO_ENABLED") == "1" }

// testsOf returns the names of the tests in a file, sorted.
func testsOf(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			names[f.Name.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
