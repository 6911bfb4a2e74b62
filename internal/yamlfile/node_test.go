// Nodes: what a node may carry beside its value, and what it is not.

package yamlfile

import "testing"

func TestCheckMarks(t *testing.T) {
	for _, c := range []struct{ text, allowed, want string }{
		{"a", "", ""},
		{"[a, {b: c}]", "", ""},
		{"&x a", "", "an anchor &x"},
		{"&x !!binary YQ==", "!!binary", "an anchor &x"},
		{"!!str 1", "", `a tag "!!str"`},
		{"!!binary YQ==", "", `a tag "!!binary"`},
		{"!!binary YQ==", "!!binary", ""},
		{"!!str 1", "!!binary", `a tag "!!str"`},
		{"[&x a]", "", ""}, // of the node alone
	} {
		n, err := parseDocument([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := checkMarks(n, c.allowed); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q with the tag %q: %q, want %q", c.text, c.allowed, got, c.want)
		}
	}
	n, err := parseDocument([]byte("[&x a, *x]"))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkMarks(n.Content[1], ""); err == nil || err.Error() != "an alias *x" {
		t.Errorf("of an alias: %v", err)
	}
}

func TestWrongType(t *testing.T) {
	for text, want := range map[string]string{
		"{a: b}": "a map is not a number",
		"[a]":    "a list is not a number",
		"a b":    `"a b" is not a number`,
	} {
		n, err := parseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := wrongType(n, "a number").Error(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestIsNull(t *testing.T) {
	for text, want := range map[string]bool{
		"null": true, "~": true, "''": false, "[]": false, "{}": false, "0": false, "!!null x": true,
	} {
		n, err := parseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := isNull(n); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
