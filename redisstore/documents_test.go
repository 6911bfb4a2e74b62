package redisstore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/doctest"
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
	for _, doc := range []string{"README.md", "docs/machines.md"} {
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

// The document has the rights that the tests of rights use, and INFO.
func TestDocumentHasTheRights(t *testing.T) {
	machines, err := os.ReadFile("../docs/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\nACL SETUSER (.*?)```").FindSubmatch(machines)
	if block == nil {
		t.Fatal("docs/machines.md has no ACL SETUSER")
	}
	commands := func(text string) []string {
		named := regexp.MustCompile(`\+\S+`).FindAllString(text, -1)
		slices.Sort(named)
		return named
	}
	has, want := commands(string(block[1])), commands(rights+" +info")
	if !slices.Equal(has, want) || !strings.Contains(string(block[1]), "-@all") {
		t.Errorf("docs/machines.md has\n%q, want\n%q", has, want)
	}
}
