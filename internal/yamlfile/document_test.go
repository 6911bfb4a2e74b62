// Documents: how many a text may hold, and how many elements.

package yamlfile

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ text, root, fails string }{
		"empty":              {text: ""},
		"only a comment":     {text: "# nothing\n"},
		"a scalar":           {text: "a", root: "a"},
		"one document":       {text: "---\na\n", root: "a"},
		"two documents":      {text: "a\n---\nb\n", fails: "a second document"},
		"no YAML":            {text: "a: b: c\n", fails: "yaml: "},
		"broken behind":      {text: "a\n---\n[", fails: "a second document"},
		"many empty lists":   {text: strings.Repeat("[", 100_000), fails: "too many elements"},
		"lines that are few": {text: strings.Repeat("\n", 8192) + "a", root: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := parseDocument([]byte(c.text))
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v, want an error with %q", err, c.fails)
				}
			case err != nil:
				t.Error(err)
			case c.root == "" && n != nil, c.root != "" && (n == nil || n.Value != c.root):
				t.Errorf("got %v, want the root %q", n, c.root)
			}
		})
	}
}
