// Patterns among the names of quotas, and under which name a model is counted.

package ratelimit_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func patternLimiter(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.FilePath = filepath.Join(t.TempDir(), "state.yaml")
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

func TestPatternPrecedence(t *testing.T) {
	quotas := map[string]ratelimit.ModelQuota{
		"*": {MaxRPM: 1}, "gpt-*": {MaxRPM: 2}, "gpt-4*": {MaxRPM: 3}, "*/gpt-4o": {MaxRPM: 4}, "gpt-4o": {MaxRPM: 5},
		"*-mini": {MaxRPM: 6}, "gpt-*-mini": {MaxRPM: 7}, "a.b*": {MaxRPM: 8},
	}
	for _, tt := range []struct {
		model         string
		exact         string // the quota, and
		exactAs       string // the name under which it is counted
		versions      string // the same with MatchVersions
		versionsAs    string
		whatItIsAbout string
	}{
		{"gpt-4o", "gpt-4o", "gpt-4o", "gpt-4o", "gpt-4o", "the exact name"},
		{"gpt-4o-2024-08-06", "gpt-4*", "gpt-4o-2024-08-06", "gpt-4o", "gpt-4o", "a version beats a pattern"},
		{"openai/gpt-4o", "*/gpt-4o", "openai/gpt-4o", "gpt-4o", "gpt-4o", "a prefix is a version, too"},
		{"a/b/gpt-4o", "*/gpt-4o", "a/b/gpt-4o", "*/gpt-4o", "a/b/gpt-4o", "* stands for /, too"},
		{"gpt-4-turbo", "gpt-4*", "gpt-4-turbo", "gpt-4*", "gpt-4-turbo", "the longest pattern"},
		{"gpt-5", "gpt-*", "gpt-5", "gpt-*", "gpt-5", "the only pattern"},
		{"gpt-4-mini", "gpt-*-mini", "gpt-4-mini", "gpt-*-mini", "gpt-4-mini", "the longest of four"},
		{"o3-mini", "*-mini", "o3-mini", "*-mini", "o3-mini", "a pattern that begins with *"},
		{"a.b", "a.b*", "a.b", "a.b*", "a.b", "* stands for nothing, too"},
		{"axb", "*", "axb", "*", "axb", "no other byte is special"},
		{"claude", "*", "claude", "*", "claude", "no pattern"},
		{"mine", "gpt-4*", "gpt-4-own", "gpt-4*", "gpt-4-own", "a pattern covers what an alias stands for"},
	} {
		for _, versions := range []bool{false, true} {
			rl := patternLimiter(t, ratelimit.Config{
				Quotas: quotas, MatchVersions: versions, Aliases: map[string]string{"mine": "gpt-4-own"},
			})
			want, as := tt.exact, tt.exactAs
			if versions {
				want, as = tt.versions, tt.versionsAs
			}
			if got := rl.Stats(tt.model).MaxRPM; got != quotas[want].MaxRPM {
				t.Errorf("%s: %q has %d requests a minute, want the %d of %q (versions: %t)", tt.whatItIsAbout, tt.model, got, quotas[want].MaxRPM, want, versions)
			}
			if got := rl.CountedAs(tt.model); got != as {
				t.Errorf("%s: %q is counted as %q, want %q (versions: %t)", tt.whatItIsAbout, tt.model, got, as, versions)
			}
			rl.RecordUsage(tt.model, 1, 1)
			if rl.State[as] == nil {
				t.Errorf("%s: %q has no state under %q", tt.whatItIsAbout, tt.model, as)
			}
			if name, q, ok := rl.QuotaFor(tt.model); name != want || q != quotas[want] || !ok {
				t.Errorf("%s: QuotaFor(%q) is %q, want %q", tt.whatItIsAbout, tt.model, name, want)
			}
		}
	}
}

// A pattern limits each model that it covers by itself, as "*" does, and is no model.
func TestPatternCountsEachModel(t *testing.T) {
	rl := patternLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt-*": {MaxRPM: 1}}})
	for _, model := range []string{"gpt-1", "gpt-2"} {
		if r, _ := rl.Reserve(model, 1, 1); r == nil {
			t.Errorf("the first call of %s is denied", model)
		}
		if r, d := rl.Reserve(model, 1, 1); r != nil || d.Code != ratelimit.DecisionRPMLimit {
			t.Errorf("the second call of %s is judged %s", model, d.Code)
		}
	}
	if got := slices.Collect(rl.Models()); !slices.Equal(got, []string{"gpt-1", "gpt-2"}) {
		t.Errorf("the models are %q", got)
	}
	rl.SetQuota("gpt-*", ratelimit.ModelQuota{MaxRPM: 2})
	if !rl.CanSend("gpt-1", 1) {
		t.Error("a new quota of a pattern does not hold")
	}
	rl.SetQuota("gpt-1*", ratelimit.ModelQuota{MaxRPM: 1})
	if rl.CanSend("gpt-1", 1) || !rl.CanSend("gpt-2", 1) {
		t.Error("a new, longer pattern does not hold")
	}
}

// The models under a pattern are bounded by MaxModels, and their days keep them.
func TestPatternModelsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := patternLimiter(t, ratelimit.Config{
			MaxModels: 2,
			Quotas:    map[string]ratelimit.ModelQuota{"day-*": {MaxRPD: 5}, "*": {MaxRPM: 5}},
		})
		reserve := func(model string) ratelimit.DecisionCode {
			r, d := rl.Reserve(model, 1, 1)
			r.Commit(1, 1)
			return d.Code
		}
		reserve("day-1")
		reserve("minute")
		if code := reserve("other"); code != ratelimit.DecisionTooManyModels {
			t.Errorf("a third model is judged %s", code)
		}
		time.Sleep(2 * time.Minute)
		if code := reserve("other"); code != ratelimit.DecisionAllowed {
			t.Errorf("once a minute is over, a third model is judged %s", code)
		}
		if rl.State["day-1"] == nil || rl.State["minute"] != nil {
			t.Errorf("of a model with a day and an idle one, %v stays", slices.Collect(rl.Models()))
		}
		rl.SetQuota("day-*", ratelimit.ModelQuota{MaxRPM: 5})
		if code := reserve("more"); code != ratelimit.DecisionAllowed {
			t.Errorf("once the pattern has no day, a further model is judged %s", code)
		}
	})
}

func ExampleRateLimiter_CountedAs() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath:      filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:        map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}, "llama*": {MaxInFlight: 2}},
		Aliases:       map[string]string{"fast": "gpt-4o"},
		MatchVersions: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range []string{"gpt-4o-2024-08-06", "fast", "llama3:8b"} {
		fmt.Println(model, "is counted as", rl.CountedAs(model))
	}
	// Output:
	// gpt-4o-2024-08-06 is counted as gpt-4o
	// fast is counted as gpt-4o
	// llama3:8b is counted as llama3:8b
}

// What was learned of a model under a pattern, or "*", does not outlive that: a quota that the
// program sets for it, or for a pattern that covers it more closely, is never exceeded.
func TestPatternBeatsWhatWasLearnedUnderAnother(t *testing.T) {
	for _, before := range []string{"*", "gpt-*"} {
		for _, after := range []string{before, "gpt-4*"} {
			for _, backend := range append(slices.Clone(backends), "shared") {
				cfg := ratelimit.Config{
					FilePath: filepath.Join(t.TempDir(), "state"), Backend: backend, LearnQuotas: true,
					Quotas: map[string]ratelimit.ModelQuota{before: {MaxRPM: 100}},
				}
				if backend == "shared" {
					if !slices.Contains(backends, "sqlite") {
						continue
					}
					cfg.Backend, cfg.Shared = "sqlite", true
				}
				rl, err := ratelimit.NewWithConfig(cfg)
				if err != nil {
					t.Fatal(err)
				}
				for _, model := range []string{"gpt-4o", "gpt-5"} {
					rl.Observe(model, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 10}})
				}
				rl.SetQuota(after, ratelimit.ModelQuota{MaxRPM: 5})
				want := 10 // the copy of a quota that is still there
				if after == before {
					want = 5
				}
				if of, beside := rl.Stats("gpt-4o").MaxRPM, rl.Stats("gpt-5").MaxRPM; of != 5 || beside != want {
					t.Errorf("%s, %q after %q: %d and %d requests a minute, want 5 and %d", backend, after, before, of, beside, want)
				}
				rl.Close()
			}
		}
	}
}
