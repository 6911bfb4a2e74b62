package profile

import (
	"slices"
	"testing"
)

// Each row: a name as programs use it, and the provider that has a row for it.
func TestOwners(t *testing.T) {
	owners := builtin(t).Owners()
	for model, want := range map[string]string{
		"gpt-4o": "openai", "gpt-5.5-2026-01-02": "openai", "gemini-2.5-pro": "gemini", "claude-sonnet-4-5-20250929": "anthropic",
		"openai/gpt-oss-120b": "groq", "gpt-oss-120b": "cerebras", "grok-4.5": "xai", "deepseek-v4-pro": "deepseek",
		"z-ai/glm-4.7:free": "openrouter", "openai/gpt-4o": "", "my-model": "", "": "", "*": "",
	} {
		if got := owners.First(model, nil); got != want {
			t.Errorf("%q is of %q, want %q", model, got, want)
		}
	}
	if got := owners.First("gpt-4o", func(provider string) bool { return provider == "azure" }); got != "" {
		t.Errorf("azure knows gpt-4o: %q", got)
	}
	for model, want := range map[string]string{"openai/gpt-4o-2024-08-06": "gpt-4o", "models/gemini-2.5-pro": "gemini-2.5-pro", "llama": ""} {
		if got := owners.Base(model); got != want {
			t.Errorf("%q is a version of %q, want %q", model, got, want)
		}
	}
	for provider, want := range map[string][2]bool{"openai": {true, true}, "azure": {false, true}, "local": {false, true}, "nobody": {}} {
		if names, known := owners.Names(provider); [2]bool{names, known} != want {
			t.Errorf("%s: %t %t, want %t", provider, names, known, want)
		}
	}
}

// Where several know a name, one that hosts the models of others comes last.
func TestHostsOwnLast(t *testing.T) {
	row := func(models ...string) []Row { return []Row{{Models: models}} }
	set := &Set{byName: map[string]*Provider{
		"azure":  {Name: "azure", Rows: row("both", "shared-*")},
		"openai": {Name: "openai", Rows: row("both", "shared-*")},
	}}
	owners := set.Owners()
	for _, model := range []string{"both", "shared-1"} {
		if got := owners.First(model, nil); got != "openai" {
			t.Errorf("%s is of %q", model, got)
		}
		if got := owners.First(model, func(p string) bool { return p == "azure" }); got != "azure" {
			t.Errorf("%s is of %q where only azure is wanted", model, got)
		}
	}
	if !slices.IsSorted(hosts) {
		t.Error("the order of the hosts is not theirs by name")
	}
}
