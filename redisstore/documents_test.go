package redisstore_test

import (
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/doctest"
)

// documentsPrelude declares the names that the text around the code introduces.
const documentsPrelude = `package docs

import (
	"context"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

var (
	ctx      context.Context
	addrs    []string
	password string
	quotas   map[string]ratelimit.ModelQuota
)
`

// The code in the documents that imports this module compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	var snippets []doctest.Snippet
	for _, doc := range []string{"README.md", "docs/guide.md"} {
		read, err := doctest.Read(filepath.Join("..", filepath.FromSlash(doc)))
		if err != nil {
			t.Fatal(err)
		}
		snippets = append(snippets, slices.DeleteFunc(read, func(s doctest.Snippet) bool {
			return !s.Uses("dappco.re/go/core/go-ratelimit/redisstore")
		})...)
	}
	if len(snippets) == 0 {
		t.Fatal("no snippet imports redisstore")
	}
	doctest.Compile(t, "..", ".", snippets, documentsPrelude)
}
