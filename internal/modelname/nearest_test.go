package modelname

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "o1", "claude-sonnet-4", "claude-opus-4", "gemini-2.5-pro", "*", "claude-*"}
	for _, tt := range []struct{ model, want string }{
		{"gpt-4p", "gpt-4o"},
		{"gpt4o-mini", "gpt-4o-mini"},
		{"claud-sonnet-4", "claude-sonnet-4"},
		{"claude-sonnet-4-5", "claude-sonnet-4"},
		{"gemini-2.5-flash", "gemini-2.5-pro"},
		{"o", "o1"},
		{"o2", "o1"},
		{"xx", ""},
		{"", ""},
		{"a-model-that-nobody-has", ""},
		{strings.Repeat("gpt-4o", 11), ""},
	} {
		for range 3 { // whatever the order
			rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			if got := Nearest(tt.model, slices.Values(names)); got != tt.want {
				t.Errorf("Nearest(%q) = %q, want %q", tt.model, got, tt.want)
			}
		}
	}
}

// FuzzDistance holds distance against its definition.
func FuzzDistance(f *testing.F) {
	f.Add("gpt-4o", "gpt-4p", uint8(3))
	f.Add("", "abc", uint8(0))
	f.Fuzz(func(t *testing.T, a, b string, most uint8) {
		a, b = a[:min(len(a), 8)], b[:min(len(b), 8)]
		var slow func(a, b string) int
		slow = func(a, b string) int {
			switch {
			case a == "" || b == "":
				return len(a) + len(b)
			case a[0] == b[0]:
				return slow(a[1:], b[1:])
			}
			return 1 + min(slow(a[1:], b[1:]), slow(a[1:], b), slow(a, b[1:]))
		}
		got, want := distance(a, b, int(most)), slow(a, b)
		if got != want && (want <= int(most) || got <= int(most)) {
			t.Errorf("distance(%q, %q, %d) = %d, want %d", a, b, most, got, want)
		}
	})
}
