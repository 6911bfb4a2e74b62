// Profiles: tiers, sources, providers that are unknown, the names that people use, and what OnError
// is told of those without a figure.

package ratelimit_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

var knownProviders = map[ratelimit.Provider]string{
	ratelimit.ProviderGemini: "gemini", ratelimit.ProviderOpenAI: "openai",
	ratelimit.ProviderAnthropic: "anthropic", ratelimit.ProviderGroq: "groq",
	ratelimit.ProviderMistral: "mistral", ratelimit.ProviderXAI: "xai",
	ratelimit.ProviderDeepSeek: "deepseek", ratelimit.ProviderAzure: "azure",
	ratelimit.ProviderBedrock: "bedrock", ratelimit.ProviderVertex: "vertex",
	ratelimit.ProviderCerebras: "cerebras", ratelimit.ProviderOpenRouter: "openrouter",
	ratelimit.ProviderLocal: "local",
}

func TestProfile(t *testing.T) {
	type q = ratelimit.ModelQuota
	for _, tt := range []struct {
		provider ratelimit.Provider
		tier     string
		wantTier string
		model    string
		want     q // zero for no quota
	}{
		{ratelimit.ProviderAnthropic, "", "start", "claude-sonnet-4-5", q{MaxRPM: 1000, MaxITPM: 2_000_000, MaxOTPM: 400_000}},
		{ratelimit.ProviderAnthropic, "start", "start", "claude-haiku-4-5", q{MaxRPM: 1000, MaxITPM: 2_000_000, MaxOTPM: 400_000}},
		{ratelimit.ProviderAnthropic, "Scale", "scale", "claude-fable-5-1", q{MaxRPM: 4000, MaxITPM: 4_000_000, MaxOTPM: 800_000}},
		{ratelimit.ProviderAnthropic, "build", "build", "claude-opus-5-5", q{MaxRPM: 5000, MaxITPM: 5_000_000, MaxOTPM: 1_000_000}},
		{ratelimit.ProviderAnthropic, "", "start", "claude-opus-4", q{}},
		{ratelimit.ProviderOpenAI, "", "build", "gpt-6-luna", q{MaxRPM: 5000, MaxTPM: 2_000_000}},
		{ratelimit.ProviderOpenAI, "", "build", "gpt-5.5", q{MaxRPM: 500, MaxTPM: 500_000}},
		{ratelimit.ProviderOpenAI, "build", "build", "gpt-5.5", q{}},
		{ratelimit.ProviderOpenAI, "GROW", "grow", "gpt-5.6-terra", q{MaxRPM: 15_000, MaxTPM: 40_000_000}},
		{ratelimit.ProviderOpenAI, "Tier 3", "3", "gpt-6-luna", q{MaxRPM: 5000, MaxTPM: 4_000_000}},
		{ratelimit.ProviderOpenAI, "", "build", "gpt-5", q{}},
		{ratelimit.ProviderGemini, "", "1", "gemini-2.5-flash", q{}},
		{ratelimit.ProviderGemini, "free", "free", "gemini-3.6-flash", q{}},
		{ratelimit.ProviderOpenRouter, "", "credits", "*:free", q{MaxRPM: 20, MaxRPD: 1000, DayZone: "UTC"}},
		{ratelimit.ProviderDeepSeek, "", "regular", "deepseek-v4-pro", q{MaxInFlight: 500}},
		{ratelimit.ProviderXAI, "", "0", "grok-4.7", q{MaxRPM: 7200, MaxTPM: 50_000_000}},
		{ratelimit.ProviderAzure, "", "", "gpt-5.5", q{}},
		{ratelimit.ProviderLocal, "", "", "llama3", q{}},
	} {
		p, err := ratelimit.Profile(tt.provider, tt.tier)
		if err != nil || p.Provider != tt.provider || p.Tier != tt.wantTier || p.Models == nil {
			t.Errorf("%s %q: %q of %q, %v", tt.provider, tt.tier, p.Tier, p.Provider, err)
		}
		if got, ok := p.Models[tt.model]; got != tt.want || ok != (tt.want != q{}) {
			t.Errorf("%s %q: %s is %+v, want %+v", tt.provider, tt.tier, tt.model, got, tt.want)
		}
	}
}

func TestProfileRefuses(t *testing.T) {
	for _, tt := range []struct {
		provider ratelimit.Provider
		tier     string
		want     []string
	}{
		{"antropic", "", []string{`"antropic"`, "anthropic", "openai"}},
		{"", "", []string{`""`}},
		{"OpenAI", "build", []string{`"OpenAI"`}},
		{ratelimit.ProviderAnthropic, "launch", []string{`"anthropic"`, `"launch"`, "start, build, scale"}},
		{ratelimit.ProviderOpenAI, "6", []string{`"openai"`, `"6"`, "build, launch, grow, 1, 2"}},
		{ratelimit.ProviderLocal, "free", []string{`"local"`, `"free"`, "no tier"}},
	} {
		p, err := ratelimit.Profile(tt.provider, tt.tier)
		if err == nil || p.Models != nil || !strings.HasPrefix(err.Error(), "profile: ") {
			t.Errorf("%q %q: %+v, %v", tt.provider, tt.tier, p, err)
			continue
		}
		for _, word := range tt.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not say %s", err, word)
			}
		}
		_, known := knownProviders[tt.provider]
		if errors.Is(err, ratelimit.ErrUnknownProvider) == known {
			t.Errorf("%v is ErrUnknownProvider: %v", err, !known)
		}
	}
}

// Each provider has a profile for each of its tiers, and each quota in it a source.
func TestEveryTierHasAProfile(t *testing.T) {
	defaults := ratelimit.DefaultProfiles()
	if len(defaults) != len(knownProviders) {
		t.Errorf("%d default profiles, want %d", len(defaults), len(knownProviders))
	}
	for provider, name := range knownProviders {
		lowest, err := ratelimit.Profile(provider, "")
		if string(provider) != name || err != nil {
			t.Errorf("%s: %v", provider, err)
		}
		checkSources(t, lowest)
		checkSources(t, defaults[provider])
		if defaults[provider].Tier != lowest.Tier {
			t.Errorf("%s: DefaultProfiles has %q, Profile %q", provider, defaults[provider].Tier, lowest.Tier)
		}
		for model, q := range lowest.Models {
			if defaults[provider].Models[model] != q {
				t.Errorf("%s: DefaultProfiles has %+v for %s", provider, defaults[provider].Models[model], model)
			}
		}
		tiers := ratelimit.Tiers(provider)
		if lowest.Tier != "" && !slices.Contains(tiers, lowest.Tier) {
			t.Errorf("%s: tier %q is not among %q", provider, lowest.Tier, tiers)
		}
		for _, tier := range tiers {
			p, err := ratelimit.Profile(provider, tier)
			if err != nil || p.Tier != tier {
				t.Errorf("%s: tier %q is %q: %v", provider, tier, p.Tier, err)
			}
			checkSources(t, p)
		}
	}
	if tiers := ratelimit.Tiers("antropic"); tiers != nil {
		t.Errorf("an unknown provider has tiers: %q", tiers)
	}
	if tiers := ratelimit.Tiers(ratelimit.ProviderLocal); tiers != nil {
		t.Errorf("the local provider has tiers: %q", tiers)
	}
}

func checkSources(t *testing.T, p ratelimit.ProviderProfile) {
	t.Helper()
	if !slices.Equal(slices.Sorted(maps.Keys(p.Models)), slices.Sorted(maps.Keys(p.Sources))) {
		t.Errorf("%s %q: models %v, sources of %v", p.Provider, p.Tier, p.Models, p.Sources)
	}
	for model, s := range p.Sources {
		old := s.Confidence == "source document"
		if s.URL == "" || s.Confidence == "" || s.ReadOn.Before(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)) || old != (s.Tier == "") {
			t.Errorf("%s %s: %+v", p.Provider, model, s)
		}
	}
}

// What a profile says is the caller's to change.
func TestProfileIsACopy(t *testing.T) {
	change := func(p ratelimit.ProviderProfile) {
		clear(p.Models)
		clear(p.Sources)
		p.Counting[0] = "nothing"
	}
	p, _ := ratelimit.Profile(ratelimit.ProviderOpenAI, "build")
	change(p)
	change(ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI])
	ratelimit.Tiers(ratelimit.ProviderOpenAI)[0] = "none"
	p, err := ratelimit.Profile(ratelimit.ProviderOpenAI, "build")
	if err != nil || p.Models["gpt-6-luna"].MaxRPM != 5000 || len(p.Sources) == 0 || p.Counting[0] != "keeps max_tokens" {
		t.Errorf("a caller's change shows: %+v, %v", p, err)
	}
	haiku, _ := ratelimit.Profile(ratelimit.ProviderAnthropic, "")
	if got := haiku.Sources["claude-3-5-haiku"].Counting; !slices.Contains(got, "cache reads count") {
		t.Errorf("Haiku 3.5 counts %q", got)
	}
	if got := haiku.Sources["claude-opus-4-8"]; got.Group != "opus-4" || !slices.Contains(got.Counting, "cache reads free") {
		t.Errorf("Opus 4.8 is %+v", got)
	}
}

func ExampleProfile() {
	profile, err := ratelimit.Profile(ratelimit.ProviderAnthropic, "scale")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(profile.Models["claude-sonnet-4-5"].MaxRPM, profile.Sources["claude-sonnet-4-5"].ReadOn.Format(time.DateOnly))

	_, err = ratelimit.Profile("antropic", "")
	fmt.Println(errors.Is(err, ratelimit.ErrUnknownProvider))
	// Output:
	// 10000 2026-09-28
	// true
}

func ExampleTiers() {
	fmt.Println(ratelimit.Tiers(ratelimit.ProviderAnthropic))
	// Output: [start build scale]
}

// The pools of a profile are those of its tier, hold nowhere before the program asks for them, and
// are the caller's to change.
func TestPoolsOfProfiles(t *testing.T) {
	want := map[string]ratelimit.ModelQuota{
		"": {MaxSpendPerTenMinutes: money.USD(10), MaxSpendPerMonth: money.USD(250)}, "1": {MaxSpendPerTenMinutes: money.USD(10), MaxSpendPerMonth: money.USD(250)},
		"tier 2": {MaxSpendPerTenMinutes: money.USD(50), MaxSpendPerMonth: money.USD(2000)}, "3": {MaxSpendPerTenMinutes: money.USD(200)},
	}
	for tier, quota := range want {
		p, err := ratelimit.Profile(ratelimit.ProviderGemini, tier)
		if err != nil {
			t.Fatal(err)
		}
		pool := p.Pools["gemini/spend"]
		if pool.Quota != quota || len(p.Pools) != 1 || !slices.Equal(pool.Models, []string{"gemini-*"}) {
			t.Errorf("%q: %+v", tier, p.Pools)
		}
		pool.Models[0] = "changed"
	}
	if p, err := ratelimit.Profile(ratelimit.ProviderGemini, "free"); err != nil || p.Pools != nil {
		t.Errorf("%+v, %v", p.Pools, err)
	}
	everybody := slices.Collect(maps.Keys(ratelimit.DefaultProfiles()))
	rl := openLimiter(t, ratelimit.Config{Providers: everybody, NoPrices: true})
	for name := range rl.Pools() {
		if q := rl.PoolStats(name); q.MaxSpendPerDay|q.MaxSpendPerMonth|q.MaxSpendPerTenMinutes != 0 {
			t.Errorf("a provider was loaded, and the pool %q limits spend", name)
		}
	}
	if !rl.CanSend("gemini-2.5-flash", 1) {
		t.Error("a model without a price is refused")
	}
}

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
