package catalog

import "testing"

// hasIn returns the function that looks for a quota.
func hasIn(quotas map[string]int) func(name string) bool {
	return func(name string) bool {
		_, ok := quotas[name]
		return ok
	}
}

func TestNames(t *testing.T) {
	quotas := map[string]int{"gpt-4o": 1, "llama3": 1, "llama3:8b": 1, Every: 1, "": 1}
	aliases := map[string]string{
		"fast":   "gpt-4o",
		"dated":  "gpt-4o-2024-08-06",
		"nobody": "unknown",
		"chain":  "fast",
		"llama3": "gpt-4o", // a quota of its own does not matter
	}
	tests := []struct {
		model    string
		exactly  string // the name under which it is counted without MatchVersions
		versions string // and with it
	}{
		{"gpt-4o", "gpt-4o", "gpt-4o"},
		{"gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "gpt-4o"},
		{"openai/gpt-4o", "openai/gpt-4o", "gpt-4o"},
		{"fast", "gpt-4o", "gpt-4o"},
		{"fast-latest", "fast-latest", "gpt-4o"},
		{"dated", "gpt-4o-2024-08-06", "gpt-4o"},
		{"nobody", "unknown", "unknown"},
		{"nobody:x", "nobody:x", "unknown"},
		{"chain", "fast", "fast"}, // an alias does not stand for another one
		{"llama3", "gpt-4o", "gpt-4o"},
		{"llama3:8b-q4", "llama3:8b-q4", "gpt-4o"},
		{"other", "other", "other"},
		{"other-latest", "other-latest", "other-latest"},
		{"", "", ""},
		{Every, Every, Every},
		{"*-latest", "*-latest", "*-latest"},
	}
	has := hasIn(quotas)
	for _, tt := range tests {
		n := Names{Aliases: aliases}
		if name := n.Counted(tt.model, has); name != tt.exactly {
			t.Errorf("%q is counted as %q, want %q", tt.model, name, tt.exactly)
		}
		n.MatchVersions = true
		if name := n.Counted(tt.model, has); name != tt.versions {
			t.Errorf("%q is counted as %q with its versions, want %q", tt.model, name, tt.versions)
		}
		var none Names
		if name := none.Counted(tt.model, has); name != tt.model {
			t.Errorf("%q is counted as %q without aliases", tt.model, name)
		}
	}
}

func TestMatchTellsWhetherThereIsAName(t *testing.T) {
	n := Names{Aliases: map[string]string{"a": "b"}}
	for model, want := range map[string]bool{"a": true, "a:1": true, "q": true, "q-0613": true, "b": false, "": false, Every: false} {
		if name, ok := n.Match(model, hasIn(map[string]int{"q": 1, Every: 1})); ok != want {
			t.Errorf("%q is %q: %v", model, name, ok)
		}
	}
}

func TestNamesAllocateNothing(t *testing.T) {
	n := Names{Aliases: map[string]string{"fast": "gpt-4o-latest"}, MatchVersions: true}
	has := hasIn(map[string]int{"gpt-4o": 1})
	if allocated := testing.AllocsPerRun(100, func() { n.Counted("models/fast-latest", has) }); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
