package profile

import (
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The provider of a name, by what was loaded and what the built-in profiles know.
func TestProviderOf(t *testing.T) {
	c := new(catalog.Catalog)
	var none, l Loaded
	l.Add("local")
	q := state.Quota{MaxRPM: 5}
	c.AddProfile(&catalog.Profile{Provider: "acme", Rows: []catalog.Row{{Name: "own", Quota: q}}})
	l.AddQuota("own", Quota{Quota: q, Provider: "acme"})
	for _, tt := range []struct {
		of         *Loaded
		name, want string
	}{
		{&none, "gemini-2.5-pro", "gemini"}, {&none, "openai/what", "openai"}, {&none, "what", ""},
		{&l, "own", "acme"}, {&l, "what", "local"},
	} {
		if got := tt.of.ProviderOf(tt.name, c); got != tt.want {
			t.Errorf("%q is of %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A quota of a profile, as long as it is that, and nobody else said it.
func TestGiven(t *testing.T) {
	c := new(catalog.Catalog)
	var l Loaded
	q := state.Quota{MaxRPM: 5}
	c.AddProfile(&catalog.Profile{Provider: "acme", Rows: []catalog.Row{{Name: "m", Quota: q}}})
	read := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	if l.AddQuota("m", Quota{Quota: q, ReadOn: read}); !l.HasQuotas() {
		t.Error("no quotas")
	}
	is, ok := l.Given("m", c)
	if !ok || is.ReadOn != read || is.IsOld(read.Add(FreshFor)) || !is.IsOld(read.Add(FreshFor+1)) {
		t.Errorf("%v, %v", is, ok)
	}
	c.SetQuota("m", q) // the same, and the program's
	if _, ok := l.Given("m", c); ok {
		t.Error("the profile gave what the program said")
	}
	if _, ok := l.Behind("m", c); !ok {
		t.Error("another quota than that of the profile")
	}
	c.SetQuota("m", state.Quota{MaxRPM: 6})
	if _, ok := l.Behind("m", c); ok {
		t.Error("the quota of the profile is not there any more")
	}
}

// Who says that a model has no figure: a provider that names it, those that make models first; one
// that says so of all others alone, or for a model that is its own.
func TestNoFigure(t *testing.T) {
	c := new(catalog.Catalog)
	for _, tt := range []struct{ loaded, name, model, want string }{
		{"", "gpt-4.1", "gpt-4.1", ""},
		{"acme", "gpt-4.1", "gpt-4.1", ""},
		{"openai", "gpt-4.1", "gpt-4.1", "openai"},
		{"openai", "gpt-6-luna", "gpt-6-luna", ""},
		{"openai", "mine", "gpt-4.1", "openai"},
		{"openai", "gpt-4.1", "mine", "openai"},
		{"openrouter openai", "openai/gpt-4.1", "openai/gpt-4.1", "openai"},
		{"openrouter bedrock", "a/b", "a/b", "openrouter"},
		{"azure", "mine", "mine", "azure"},
		{"azure openai", "mine", "mine", ""},
		{"azure openai", "azure/mine", "azure/mine", "azure"},
		{"local", "mine", "mine", "local"},
	} {
		var l Loaded
		for provider := range strings.FieldsSeq(tt.loaded) {
			l.Add(provider)
		}
		if got := l.NoFigure(tt.name, tt.model, c); got != tt.want {
			t.Errorf("with %q, %s as %s: %q, want %q", tt.loaded, tt.model, tt.name, got, tt.want)
		}
	}
}
