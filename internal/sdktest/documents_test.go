package sdktest

import (
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/doctest"
)

// The code in the documents that imports an SDK compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	var snippets []doctest.Snippet
	for _, doc := range []string{"README.md", "docs/guide.md"} {
		read, err := doctest.Read(filepath.Join("../..", filepath.FromSlash(doc)))
		if err != nil {
			t.Fatal(err)
		}
		read = slices.DeleteFunc(read, func(s doctest.Snippet) bool { return !s.ImportsSDK() })
		if len(read) == 0 {
			t.Errorf("no snippet in %s imports an SDK", doc)
		}
		snippets = append(snippets, read...)
	}
	doctest.Compile(t, "../..", ".", snippets, "package docs\n\nvar err error\n")
}
