// Links: what a document of this module refers to in another exists.

package doctest_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	code    = regexp.MustCompile("(?ms)^```.*?^```")
)

func TestDocumentsLinkToWhatExists(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	docs, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob("../../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, top...) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			target := string(found[1])
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			name := doc
			if file != "" {
				name = filepath.Join(filepath.Dir(doc), filepath.FromSlash(file))
			}
			there, err := os.ReadFile(name)
			if err != nil {
				t.Errorf("%s: the link %s: %v", doc, target, err)
			} else if anchor != "" && path.Ext(name) == ".md" && !hasAnchor(there, anchor) {
				t.Errorf("%s: the link %s: no such heading", doc, target)
			}
		}
	}
}

// hasAnchor reports whether a heading has the given anchor, as GitHub makes it of its text.
func hasAnchor(text []byte, anchor string) bool {
	for _, found := range heading.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(string(found[1])), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}
