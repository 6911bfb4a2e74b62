// The documents: each Go block in them compiles.

package doctest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/doctest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// documents are those whose code a reader may copy.
var documents = []string{
	"README.md", "docs/adaptive.md", "docs/algorithms.md", "docs/budgets.md", "docs/calls.md", "docs/classes.md",
	"docs/errors.md", "docs/from-the-original.md", "docs/machines.md", "docs/models.md", "docs/processes.md",
	"docs/providers.md", "docs/sdk.md", "docs/serving.md", "docs/waiting.md", "docs/watching.md",
}

// modules are those beside the root. Their tests compile the code that imports them.
var modules = []string{
	"dappco.re/go/core/go-ratelimit/redisstore", "dappco.re/go/core/go-ratelimit/redislimit",
	"dappco.re/go/core/go-ratelimit/otelratelimit", "dappco.re/go/core/go-ratelimit/promratelimit",
}

func TestDocumentsCompile(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	var snippets []doctest.Snippet
	for _, doc := range documents {
		read, err := doctest.Read(filepath.Join("../../..", filepath.FromSlash(doc)))
		if err != nil || len(read) == 0 {
			t.Fatalf("%s: %d snippets, %v", doc, len(read), err)
		}
		snippets = append(snippets, read...)
	}
	prelude, err := os.ReadFile("testdata/prelude.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	snippets = slices.DeleteFunc(snippets, func(s doctest.Snippet) bool {
		return s.ImportsSDK() || slices.ContainsFunc(modules, s.Uses)
	})
	doctest.Compile(t, "../../..", "../../..", snippets, string(prelude))
}

// No document may name a package that only this module can import.
func TestDocumentsImportNothingInternal(t *testing.T) {
	for _, doc := range documents {
		snippets, err := doctest.Read(filepath.Join("../../..", filepath.FromSlash(doc)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range snippets {
			for _, path := range s.Imports() {
				if strings.Contains(path, "/internal/") {
					t.Errorf("%s:%d imports %s", doc, s.Line, path)
				}
			}
		}
	}
}

func TestRead(t *testing.T) {
	doc := filepath.Join(t.TempDir(), "a.md")
	text := "# A\n\n```sh\nls\n```\n\n```go\nimport \"fmt\"\n\nfmt.Println(1)\n…\nx := 1\n```\n- text\n  ```go\n  f()\n  ```\n"
	if err := os.WriteFile(doc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	snippets, err := doctest.Read(doc)
	want := []doctest.Snippet{{doc, 8, "import \"fmt\"\n\nfmt.Println(1)\n\nx := 1\n"}, {doc, 16, "  f()\n"}}
	if err != nil || !slices.Equal(snippets, want) {
		t.Errorf("got %v, %v\nwant %v", snippets, err, want)
	}
	if err := os.WriteFile(doc, []byte("```go\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := doctest.Read(doc); err == nil || !strings.Contains(err.Error(), "a.md:2: the block does not end") {
		t.Errorf("got %v", err)
	}
}

// failures is a testing.TB that notes what is reported.
type failures struct {
	testing.TB
	text string
}

func (f *failures) Errorf(format string, args ...any) {
	for _, arg := range args {
		if text, ok := arg.([]byte); ok {
			f.text += string(text)
		}
	}
}

// The test itself: it finds mistakes, and says where in the document they are.
func TestCompileFindsMistakes(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	const head = "import (\n\t\"fmt\"\n\tratelimit \"dappco.re/go/core/go-ratelimit\"\n)\n"
	doc := filepath.Join(t.TempDir(), "b.md")
	snippets := []doctest.Snippet{
		{doc, 10, "package main\n\nfunc main() { println(1) }\n"},
		{doc, 20, head + "rl, err := ratelimit.New()\nif err != nil {\n\treturn err\n}\nfmt.Println(rl)\nunused := 1\n"},
		{doc, 30, "import \"fmt\"\n\nfunc declared() { fmt.Println() }\n"},
		{doc, 40, "declared()\nundeclared()\n"},
		{doc, 50, "import \"os\"\n\ndeclared()\n"},
		{doc, 60, "fmt.Println()\n"},
	}
	got := &failures{TB: t}
	doctest.Compile(got, "../../..", "../../..", snippets, "package docs\n")
	for _, want := range []string{"b.md:41", "undeclared", "b.md:50", `"os" imported and not used`, "b.md:60", "undefined: fmt"} {
		if !strings.Contains(got.text, want) {
			t.Errorf("no %q in\n%s", want, got.text)
		}
	}
	for _, line := range []string{"b.md:1", "b.md:2", "b.md:3", "b.md:40"} {
		if strings.Contains(got.text, line) {
			t.Errorf("%s is reported in\n%s", line, got.text)
		}
	}
}
