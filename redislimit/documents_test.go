package redislimit_test

import (
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/doctest"
)

// documentsPrelude declares the names that the text around the code introduces.
const documentsPrelude = `package docs

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    context.Context
	addrs  []string
	client redis.UniversalClient
	tenant string
)

func tooManyRequests(time.Duration) error { return nil }

func serve(context.Context) error { return nil }

func logError(error) {}
`

// The code in the documents that imports this module compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	var snippets []doctest.Snippet
	for _, doc := range []string{"README.md", "docs/guide.md", "docs/serving.md"} {
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
