package doctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const rootModule = "dappco.re/go/core/go-ratelimit"

// Compile builds and vets snippets in a module of their own, which takes this one from the folder
// root by a replace directive, as a user does before a release. It requires what the module in the
// folder like requires, and takes that one from its folder; nothing is downloaded. The snippets of
// a document are a package, and each program is one of its own. The prelude is a file of the
// package docs: it declares the names that the text around the snippets introduces.
//
// Compile skips the test with -short, and where there is no go tool.
func Compile(t testing.TB, root, like string, snippets []Snippet, prelude string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the snippets are not compiled, because of -short")
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("the snippets are not compiled, for want of the go tool: %v", err)
	}
	folder := t.TempDir()
	if err := writeModule(folder, root, like, snippets, prelude); err != nil {
		t.Fatal(err)
	}
	// Vet type-checks without linking the programs, but tells the first mistake of a package alone.
	if out, err := goTool(tool, folder, "vet", "-mod=mod", "-unreachable=false", "./..."); err != nil {
		// What stands behind a return is another part, hence -unreachable=false.
		if all, err := goTool(tool, folder, "build", "-mod=mod", "-gcflags=-e", "./..."); err != nil {
			out = all
		}
		t.Errorf("%v\n%s", err, out)
	}
}

// goTool runs the go tool in a folder and returns what it says.
func goTool(tool, folder string, args ...string) ([]byte, error) {
	cmd := exec.Command(tool, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, err
}

func writeModule(folder, root, like string, snippets []Snippet, prelude string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	requirements, err := requirements(like)
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(like, "go.sum"))
	files := map[string]string{
		"go.sum": string(sums),
		"go.mod": fmt.Sprintf("module docs\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %s => %q\n\n%s",
			rootModule, rootModule, root, requirements),
	}
	packages := make(map[string]string) // by document
	for i, s := range snippets {
		if packages[s.Doc] == "" {
			packages[s.Doc] = fmt.Sprintf("doc%d", len(packages))
			files[packages[s.Doc]+"/prelude.go"] = prelude
		}
		folder := packages[s.Doc]
		if s.program() {
			folder = fmt.Sprintf("program%d", i)
		}
		files[fmt.Sprintf("%s/snippet%d.go", folder, i)] = s.file(fmt.Sprintf("snippet%d", i))
	}
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	return err
}

// requirements returns the require blocks of the go.mod in a folder, without this module, and those
// that take the folder's module from there if it is not this one.
func requirements(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	var blocks strings.Builder
	inside := false
	for line := range strings.Lines(string(data)) {
		inside = inside || strings.HasPrefix(line, "require")
		if inside && !strings.Contains(line, rootModule+" ") {
			blocks.WriteString(line)
		}
		inside = inside && !strings.HasPrefix(line, ")") && (!strings.HasPrefix(line, "require") || strings.Contains(line, "("))
		if name, found := strings.CutPrefix(line, "module "); found && strings.TrimSpace(name) != rootModule {
			name = strings.TrimSpace(name)
			fmt.Fprintf(&blocks, "require %s v0.0.0\n\nreplace %s => %q\n\n", name, name, folder)
		}
	}
	return blocks.String(), err
}
