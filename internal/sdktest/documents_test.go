package sdktest

import (
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/doctest"
)

// The code in the documents that imports an SDK compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	for _, doc := range []string{"README.md", "docs/guide.md"} {
		t.Run(doc, func(t *testing.T) {
			snippets, err := doctest.Read(filepath.Join("../..", filepath.FromSlash(doc)))
			if err != nil {
				t.Fatal(err)
			}
			snippets = slices.DeleteFunc(snippets, func(s doctest.Snippet) bool { return !s.ImportsSDK() })
			if len(snippets) == 0 {
				t.Fatal("no snippet imports an SDK")
			}
			doctest.Compile(t, "../..", ".", snippets, "package docs\n\nvar err error\n")
		})
	}
}
