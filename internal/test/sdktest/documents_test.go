package sdktest

import (
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/doctest"
)

// modules are those that compile the code that imports them, and need more than an SDK.
var modules = []string{
	"dappco.re/go/core/go-ratelimit/redisstore", "dappco.re/go/core/go-ratelimit/redislimit",
	"dappco.re/go/core/go-ratelimit/otelratelimit", "dappco.re/go/core/go-ratelimit/promratelimit",
}

// The code in the documents that imports an SDK compiles. The root's tests compile the rest.
func TestDocumentsCompile(t *testing.T) {
	var snippets []doctest.Snippet
	for _, doc := range []string{"README.md", "docs/sdk.md"} {
		read, err := doctest.Read(filepath.Join("../../..", filepath.FromSlash(doc)))
		if err != nil {
			t.Fatal(err)
		}
		snippets = append(snippets, slices.DeleteFunc(read, func(s doctest.Snippet) bool {
			return !s.ImportsSDK() || slices.ContainsFunc(modules, s.Uses)
		})...)
	}
	if len(snippets) == 0 {
		t.Fatal("no snippet imports an SDK")
	}
	doctest.Compile(t, "../../..", ".", snippets, "package docs\n\nvar err error\n")
}
