// Names: what the profiles say of the names that people use, and what OnError is told of those
// without a figure.

package ratelimit_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// namesPeopleUse are names that programs call the providers by, each with the name of its quota;
// else, behind a "-", the name nearest to it that has one, and nothing where no name is near.
var namesPeopleUse = []struct{ provider, model, want string }{
	{"openai", "gpt-6-luna", "gpt-6-luna"},
	{"openai", "gpt-6.1-sol", "gpt-6.1-sol"},
	{"openai", "gpt-5.5", "gpt-5.5"},
	{"openai", "gpt-5.1", "-gpt-5.5"},
	{"openai", "gpt-5", "-gpt-4o"},
	{"openai", "gpt-5-mini-2025-08-07", "-gpt-4o-mini"},
	{"openai", "gpt-4.1", "-gpt-4o"},
	{"openai", "gpt-4o", "gpt-4o"},
	{"openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"},
	{"openai", "o3", "-o1"},
	{"openai", "o4-mini", "-o1-mini"},
	{"anthropic", "claude-opus-5-5", "claude-opus-5-5"},
	{"anthropic", "claude-sonnet-5-5", "claude-sonnet-5-5"},
	{"anthropic", "claude-haiku-5-5", "claude-haiku-5-5"},
	{"anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
	{"anthropic", "claude-opus-4-1-20250805", "-claude-opus-4-5"},
	{"anthropic", "claude-3-5-sonnet-20241022", "-claude-sonnet-4"},
	{"anthropic", "claude-3-5-haiku-latest", "claude-3-5-haiku"},
	{"gemini", "gemini-2.5-pro", "gemini-2.5-pro"}, // as the source document has it
	{"gemini", "gemini-2.5-flash", "-gemini-2.0-flash"},
	{"gemini", "gemini-3.8-flash", "-gemini-2.0-flash"},
	{"gemini", "gemini-3.1-pro-preview", "-gemini-3-pro-preview"},
	{"groq", "llama-3.3-70b-versatile", "-"},
	{"groq", "llama-3.1-8b-instant", "-"},
	{"groq/free", "openai/gpt-oss-120b", "openai/gpt-oss-120b"},
	{"mistral", "mistral-large-latest", "-"},
	{"mistral", "codestral-2508", "-"},
	{"xai", "grok-4", "-grok-4.3"},
	{"xai", "grok-4.7", "grok-4.7"},
	{"deepseek", "deepseek-chat", "-deepseek-flash"},
	{"deepseek", "deepseek-reasoner", "-deepseek-flash"},
	{"deepseek", "deepseek-flash", "deepseek-flash"},
	{"azure", "gpt-4.1", "-"},
	{"azure", "prod-gpt-5.4-eastus2", "-"},
	{"bedrock", "us.anthropic.claude-opus-4-5-20251101-v1:0", "us.anthropic.claude-opus-4-5"},
	{"bedrock", "eu.anthropic.claude-sonnet-4-6", "eu.anthropic.claude-sonnet-4-6"},
	{"bedrock", "global.anthropic.claude-haiku-4-5-20251001-v1:0", "global.anthropic.claude-haiku-4-5"},
	{"bedrock", "amazon.nova-pro-v1:0", "-apac.anthropic.claude-opus-5"},
	{"vertex", "publishers/google/models/gemini-2.5-flash", "publishers/google/models/gemini-*-flash"},
	{"vertex", "projects/p/locations/global/publishers/google/models/gemini-3.1-pro-preview", "projects/*/publishers/google/models/gemini-*-pro-preview"},
	{"vertex", "publishers/anthropic/models/claude-haiku-4-5@20251001", "publishers/anthropic/models/claude-haiku-4-5"},
	{"cerebras", "gpt-oss-120b", "gpt-oss-120b"},
	{"cerebras", "llama-3.3-70b", "-gpt-oss-120b"},
	{"openrouter", "meta-llama/llama-3.2-3b-instruct:free", "*:free"},
	{"openrouter", "anthropic/claude-opus-4.5", "-"},
	{"local", "llama3.1:8b-instruct-q4_K_M", "-"},
}

// meetName calls a model thrice with the profiles of providers. It returns the name of its quota,
// and what OnError was told of the model.
func meetName(t *testing.T, model string, cfg ratelimit.Config) (quota string, told []ratelimit.UnknownModelError) {
	cfg.FilePath, cfg.MatchVersions = filepath.Join(t.TempDir(), "f"), true
	cfg.OnError = func(err error) {
		var unknown *ratelimit.UnknownModelError
		if errors.As(err, &unknown) {
			told = append(told, *unknown)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		rl, err := ratelimit.NewWithConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer rl.Close()
		for range 3 {
			if !rl.CanSend(model, 1) {
				t.Errorf("%s is denied", model)
			}
			rl.RecordUsage(model, 1, 1)
			synctest.Wait()
		}
		quota, _, _ = rl.QuotaFor(model)
	})
	return quota, told
}

// A name has a quota, or OnError is told once that its provider has no current figure of it, and
// which name is nearest.
func TestNamesPeopleUse(t *testing.T) {
	for _, tt := range namesPeopleUse {
		name, tier, tiered := strings.Cut(tt.provider, "/")
		provider := ratelimit.Provider(name)
		cfg := ratelimit.Config{Providers: []ratelimit.Provider{provider}}
		if tiered {
			cfg.Tiers = map[ratelimit.Provider]string{provider: tier}
		}
		quota, told := meetName(t, tt.model, cfg)
		want := []ratelimit.UnknownModelError{{Model: tt.model, NoFigure: provider}}
		wantQuota, is := tt.want, false
		if want[0].Nearest, is = strings.CutPrefix(tt.want, "-"); is {
			wantQuota = ""
		} else {
			want = nil
		}
		if quota != wantQuota || !slices.Equal(told, want) {
			t.Errorf("%s of %s: the quota %q, want %q; OnError got %v, want %v", tt.model, tt.provider, quota, wantQuota, told, want)
		}
	}
}

// With all profiles loaded the answer is that of whoever makes the model, and one that says so of
// all other models answers for none.
func TestNoFigureOfAllProviders(t *testing.T) {
	all := slices.Sorted(maps.Keys(ratelimit.DefaultProfiles()))
	for _, tt := range []struct {
		model    string
		provider ratelimit.Provider
	}{
		{"gpt-4.1", "openai"}, {"openai/gpt-4.1", "openai"}, {"gpt-5-mini-2025-08-07", "openai"}, {"models/gemini-2.5-flash", "gemini"},
		{"claude-3-5-sonnet-20241022", "anthropic"}, {"mistral-large-latest", "mistral"}, {"llama-3.3-70b-versatile", "groq"},
		{"llama-3.3-70b", "cerebras"}, {"grok-4", "xai"}, {"deepseek-chat", "deepseek"}, {"amazon.nova-pro-v1:0", "bedrock"},
		{"anthropic/claude-opus-4.5", "openrouter"}, {"prod-gpt-5.4-eastus2", ""}, {"llama3.1:8b-instruct-q4_K_M", ""},
	} {
		if _, told := meetName(t, tt.model, ratelimit.Config{Providers: all}); len(told) != 1 || told[0].NoFigure != tt.provider {
			t.Errorf("%s: OnError got %+v, want one of %q", tt.model, told, tt.provider)
		}
	}
	answered := 0
	for _, name := range namesPeopleUse {
		quota, told := meetName(t, name.model, ratelimit.Config{Providers: all})
		if quota != "" || len(told) == 1 && told[0].NoFigure != "" && told[0].Nearest != "" {
			answered++
		}
	}
	if answered < 40 {
		t.Errorf("%d of %d names have a quota, or an answer with the nearest name", answered, len(namesPeopleUse))
	}
	// Without a profile nothing is said of figures; an alias has those of what it stands for.
	if _, told := meetName(t, "gpt-4.1", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {}}}); len(told) != 1 || told[0].NoFigure != "" {
		t.Errorf("without a profile OnError got %+v", told)
	}
	if _, told := meetName(t, "mine", ratelimit.Config{Providers: all, Aliases: map[string]string{"mine": "gpt-4.1"}}); len(told) != 1 || told[0].NoFigure != "openai" {
		t.Errorf("of an alias OnError got %+v", told)
	}
}

func TestUnknownModelErrorText(t *testing.T) {
	err := &ratelimit.UnknownModelError{Model: "gpt-4.1", Nearest: "gpt-4o", NoFigure: ratelimit.ProviderOpenAI}
	if want := `no quota for the model "gpt-4.1": no current figure of the provider "openai" is known; the nearest known name is "gpt-4o"`; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
