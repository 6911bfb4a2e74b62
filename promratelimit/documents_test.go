package promratelimit_test

import (
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/doctest"
)

// The code in the documents that imports this module compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	var snippets []doctest.Snippet
	for _, doc := range []string{"README.md", "docs/watching.md"} {
		read, err := doctest.Read(filepath.Join("..", filepath.FromSlash(doc)))
		if err != nil {
			t.Fatal(err)
		}
		snippets = append(snippets, slices.DeleteFunc(read, func(s doctest.Snippet) bool {
			return !s.Uses("dappco.re/go/core/go-ratelimit/promratelimit")
		})...)
	}
	if len(snippets) == 0 {
		t.Fatal("no snippet imports promratelimit")
	}
	doctest.Compile(t, "..", ".", snippets, "package docs\n")
}
