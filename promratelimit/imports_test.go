package promratelimit_test

import (
	"go/build"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The package imports the client of Prometheus, and of this repository the root and the list of
// instruments.
func TestImports(t *testing.T) {
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"dappco.re/go/core/go-ratelimit", "dappco.re/go/core/go-ratelimit/internal/instruments",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_model/go",
	}
	if len(pkg.Imports) < len(allowed) {
		t.Errorf("it imports only %q", pkg.Imports)
	}
	for _, path := range pkg.Imports {
		if strings.Contains(path, ".") && !slices.Contains(allowed, path) {
			t.Errorf("it imports %s", path)
		}
	}
}

// A program that limits calls without this module links no client of Prometheus.
func TestRootLinksNoPrometheus(t *testing.T) {
	root := "dappco.re/go/core/go-ratelimit"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", root, root+"/llmhttp").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(path, "github.com/prometheus/") {
			t.Errorf("it links %s", path)
		}
	}
	if !strings.Contains(string(out), root+"/llmhttp\n") {
		t.Errorf("go list says %s", out)
	}
}
