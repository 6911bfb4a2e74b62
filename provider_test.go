// Profiles: tiers, sources, and providers that are unknown.

package ratelimit_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
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
