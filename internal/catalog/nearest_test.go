package catalog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

func TestNearest(t *testing.T) {
	names := []string{"gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "o1", "claude-sonnet-4", "claude-opus-4", "gemini-2.5-pro", "*", "claude-*"}
	for _, tt := range []struct{ model, want string }{
		{"gpt-4p", "gpt-4o"},
		{"gpt4o-mini", "gpt-4o-mini"},
		{"claud-sonnet-4", "claude-sonnet-4"},
		{"claude-sonnet-4-5", "claude-sonnet-4"},
		{"gemini-2.5-flash", "gemini-2.5-pro"},
		{"GPT-4O", "gpt-4o"},
		{"Claude-Opus-4", "claude-opus-4"},
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

// A name that is like none is compared without its path and its date.
func TestNearestOfACatalog(t *testing.T) {
	c := new(Catalog)
	for _, name := range []string{"gpt-4o-mini", "claude-opus-4-5", "a*"} {
		c.SetQuota(name, state.Quota{MaxRPM: 1})
	}
	for _, tt := range []struct{ model, want string }{
		{"gpt-5-mini-2025-08-07", "gpt-4o-mini"},
		{"projects/p/locations/global/publishers/anthropic/models/claude-opus-4-1@20250805", "claude-opus-4-5"},
		{"openrouter/gpt-5-mini", "gpt-4o-mini"},
		{"gpt-4o-mini-2024-07-18", "gpt-4o-mini"},
		{"quite-another-2025-08-07", ""},
	} {
		if got := c.Nearest(tt.model, &Names{}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.model, got, tt.want)
		}
	}
	for _, tt := range []struct{ model, want string }{
		{"claude-next-2025-08-07", "claude-opus-4-5"}, {"x/gpt-5-2025-08-07", "gpt-4o-mini"}, {"", "gpt-4o-mini"}, {strings.Repeat("x", 65), ""},
	} {
		if got := Closest(tt.model, slices.Values([]string{"gpt-4o-mini", "claude-opus-4-5", "a*", "*"})); got != tt.want {
			t.Errorf("closest to %s: %q, want %q", tt.model, got, tt.want)
		}
	}
}

// FuzzDistance holds distance against its definition.
func FuzzDistance(f *testing.F) {
	f.Add("gpt-4o", "gpt-4p")
	f.Add("", "abc")
	f.Add("aBC-", "AbD-x")
	f.Add(strings.Repeat("ab", 32), strings.Repeat("ba", 32))
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = a[:min(len(a), maxNearest)], b[:min(len(b), maxNearest)]
		row := make([]int, len(b)+1) // the distances of the part of a so far to all beginnings of b
		for j := range row {
			row[j] = j
		}
		for i := range len(a) {
			before := row[0]
			row[0]++
			for j := range len(b) {
				replaced := before
				if lower(a[i]) != lower(b[j]) {
					replaced++
				}
				before = row[j+1]
				row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
			}
		}
		if got, want := placesOf(a).distance(b), row[len(b)]; got != want {
			t.Errorf("distance(%q, %q) = %d, want %d", a, b, got, want)
		}
	})
}

func BenchmarkNearest(b *testing.B) {
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("provider-model-%d-large", i))
	}
	for b.Loop() {
		Nearest("provider-modex-77-small", slices.Values(names))
	}
}
