package redislimit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/doctest"
)

// documentsPrelude declares the names that the text around the code introduces.
const documentsPrelude = `package docs

import (
	"context"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    context.Context
	client redis.UniversalClient
)

func logError(error) {}
`

// The code in the documents that imports this module compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	var snippets []doctest.Snippet
	for _, doc := range []string{"README.md", "docs/serving.md"} {
		read, err := doctest.Read(filepath.Join("..", filepath.FromSlash(doc)))
		if err != nil {
			t.Fatal(err)
		}
		snippets = append(snippets, slices.DeleteFunc(read, func(s doctest.Snippet) bool {
			return !s.Uses("dappco.re/go/core/go-ratelimit/redislimit")
		})...)
	}
	if len(snippets) == 0 {
		t.Fatal("no snippet imports redislimit")
	}
	doctest.Compile(t, "..", ".", snippets, documentsPrelude)
}

// The document has the rights that the tests of rights use.
func TestDocumentHasTheRights(t *testing.T) {
	serving, err := os.ReadFile("../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rights := range []string{limiterRights, originRights, exchangeRights} {
		if !strings.Contains(string(serving), "`"+rights+"`") {
			t.Errorf("docs/serving.md does not have %q", rights)
		}
	}
}
