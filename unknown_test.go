// Models without a quota: Config.Unknown, what OnError is told of them, providers without a
// profile, and profiles that are old.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// unknownLimiter returns a limiter of two models that tells what OnError gets.
func unknownLimiter(t *testing.T, cfg ratelimit.Config) (rl *ratelimit.RateLimiter, told func() []string) {
	t.Helper()
	path := cfg.FilePath
	if path == "" {
		path = filepath.Join(t.TempDir(), "state.yaml")
	}
	return (&place{kind: alone, path: path}).openUnknown(t, cfg)
}

// openUnknown opens a limiter of a kind as unknownLimiter does.
func (p *place) openUnknown(t *testing.T, cfg ratelimit.Config) (rl *ratelimit.RateLimiter, told func() []string) {
	t.Helper()
	var errs []string
	cfg.OnError = func(err error) { errs = append(errs, err.Error()) }
	if cfg.Quotas == nil {
		cfg.Quotas = map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 100}, "free": {}}
	}
	return p.open(t, cfg), func() []string {
		synctest.Wait()
		slices.Sort(errs)
		return errs
	}
}

// ways are the calls that meet a model, each with what it says about whether it may be sent.
var unknownWays = map[string]func(rl *ratelimit.RateLimiter, model string) (allowed bool, d ratelimit.Decision){
	"CanSend": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		return rl.CanSend(model, 1), ratelimit.Decision{}
	},
	"Decide": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		d := rl.Decide(model, 1)
		return d.Allowed, d
	},
	"DecideRequest": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		d := rl.DecideRequest(ratelimit.Request{Model: model})
		return d.Allowed, d
	},
	"Reserve": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		r, d := rl.Reserve(model, 1, 1)
		r.Commit(1, 1)
		return r != nil, d
	},
	"ReserveAll": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		rs, d := rl.ReserveAll(ratelimit.Request{Model: "gpt-4o"}, ratelimit.Request{Model: model})
		rs.Cancel()
		if d.Allowed {
			d.Code = ratelimit.DecisionUnknownModel // which is said of one model alone
		}
		return rs != nil, d
	},
	"Acquire": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		r, err := rl.Acquire(context.Background(), model, 1, 1)
		var limit *ratelimit.LimitError
		if errors.As(err, &limit) {
			return false, limit.Decision
		}
		r.Cancel()
		return err == nil, ratelimit.Decision{Code: ratelimit.DecisionUnknownModel}
	},
	"WaitForCapacity": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		err := rl.WaitForCapacity(context.Background(), model, 1)
		var limit *ratelimit.LimitError
		if errors.As(err, &limit) {
			return false, limit.Decision
		}
		return err == nil, ratelimit.Decision{Code: ratelimit.DecisionUnknownModel}
	},
	"RecordUsage": func(rl *ratelimit.RateLimiter, model string) (bool, ratelimit.Decision) {
		rl.RecordUsage(model, 1, 1)
		return rl.CanSend(model, 1), ratelimit.Decision{}
	},
}

func TestUnknownModel(t *testing.T) {
	const hint = `no quota for the model "gpt-4p"; the nearest known name is "gpt-4o"`
	for name, way := range unknownWays {
		for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
			t.Run(fmt.Sprint(name, "/", policy), func(t *testing.T) {
				onKinds(t, func(t *testing.T, p *place) {
					rl, told := p.openUnknown(t, ratelimit.Config{Unknown: policy})
					for range 3 {
						allowed, d := way(rl, "gpt-4p")
						if allowed != (policy == ratelimit.UnknownAllow) {
							t.Errorf("allowed is %t", allowed)
						}
						if d == (ratelimit.Decision{}) {
							continue
						}
						if d.Code != ratelimit.DecisionUnknownModel || d.Never == allowed {
							t.Errorf("the decision is %+v", d)
						}
						if !allowed && d.Reason != `no quota for this model; the nearest known name is "gpt-4o"` {
							t.Errorf("the reason is %q", d.Reason)
						}
					}
					for _, known := range []string{"gpt-4o", "free"} {
						if allowed, d := way(rl, known); !allowed || d.Code == ratelimit.DecisionUnknownModel && name != "ReserveAll" && name != "Acquire" && name != "WaitForCapacity" {
							t.Errorf("%q is judged %t, %+v", known, allowed, d)
						}
					}
					if got := told(); !slices.Equal(got, []string{hint}) {
						t.Errorf("OnError got %q, want %q once", got, hint)
					}
				})
			})
		}
	}
}

func TestUnknownModelIsToldOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, told := unknownLimiter(t, ratelimit.Config{MaxModels: 3})
		for hour := range 26 {
			for i := range 5 { // of which there is room for three
				rl.CanSend(fmt.Sprint("unknown-", i), 1)
			}
			want := 3
			if hour >= 24 {
				want = 6
			}
			if got := told(); len(got) != want {
				t.Fatalf("after %d hours OnError got %q, want %d", hour, got, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestUnknownModelIsOneThatNothingStandsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, told := unknownLimiter(t, ratelimit.Config{
			Unknown: ratelimit.UnknownDeny, MatchVersions: true,
			Aliases: map[string]string{"mine": "gpt-4o", "astray": "nowhere"},
			Quotas:  map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 100}, "llama*": {MaxRPM: 100}},
		})
		for model, allowed := range map[string]bool{
			"gpt-4o": true, "gpt-4o-2024-08-06": true, "openai/gpt-4o": true, "mine": true, "llama3:8b": true,
			"astray": false, "gpt-5": false, "": false,
		} {
			if rl.CanSend(model, 1) != allowed || rl.Decide(model, 1).Allowed != allowed {
				t.Errorf("%q is allowed, or not: want %t", model, allowed)
			}
		}
		if got := told(); len(got) != 3 {
			t.Errorf("OnError got %q, want three models", got)
		}
		rl.SetQuota("*", ratelimit.ModelQuota{})
		if !rl.CanSend("gpt-5", 1) {
			t.Error(`a quota "*" that is all zero does not stand for a model`)
		}
		if d := rl.Decide("gpt-5", -1); d.Code != ratelimit.DecisionInvalidTokens {
			t.Errorf("a negative estimate is %s", d.Code)
		}
	})
}

// What a program is told instead of a name that it has mistyped: also a name of which the model is
// a version, one in another case, and an alias; and also once MaxModels others were told of. An
// explanation says the same as a decision.
func TestUnknownModelNearest(t *testing.T) {
	rl := openLimiter(t, ratelimit.Config{
		Unknown: ratelimit.UnknownDeny, MaxModels: 1,
		Aliases: map[string]string{"fast-one": "gpt-4o", "astray": "nowhere", "o1": "nowhere"},
		Quotas:  map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 100}, "claude-opus-4": {}, "o1": {}, "gpt-5*": {}},
	})
	for model, nearest := range map[string]string{
		"gpt-4p": "gpt-4o", "GPT-4O": "gpt-4o", "openai/gpt-4o": "gpt-4o", "gpt-4o-2024-08-06": "gpt-4o",
		"claude-opus-4@20250514": "claude-opus-4", "fast-won": "fast-one", "o2": "o1",
		"astray": "", "o1": "", "gtp-5": "", "nothing-like-it": "",
	} {
		want := "no quota for this model"
		if nearest != "" {
			want += fmt.Sprintf("; the nearest known name is %q", nearest)
		}
		for range 2 {
			if d := rl.Decide(model, 1); d.Allowed || d.Reason != want {
				t.Errorf("%q: %q, want %q", model, d.Reason, want)
			}
		}
		if e := rl.Explain(model); e.Next.Reason != want {
			t.Errorf("%q is explained by %q, want %q", model, e.Next.Reason, want)
		}
	}
}

func TestUnknownPolicyText(t *testing.T) {
	for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
		text, err := json.Marshal(policy)
		var back ratelimit.UnknownPolicy
		if err != nil || json.Unmarshal(text, &back) != nil || back != policy || string(text) != `"`+policy.String()+`"` {
			t.Errorf("%v is %s, and read as %v: %v", policy, text, back, err)
		}
	}
	policy := ratelimit.UnknownDeny
	if err := policy.UnmarshalText([]byte("perhaps")); err == nil || policy != ratelimit.UnknownDeny {
		t.Errorf("perhaps is %v, %v", policy, err)
	}
	_, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "f"), Unknown: 7})
	if err == nil || !strings.Contains(err.Error(), "Unknown") || !strings.Contains(err.Error(), "7") {
		t.Errorf("a policy that is none: %v", err)
	}
}

func TestUnknownProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []ratelimit.Config{
			{Providers: []ratelimit.Provider{"antropic"}},
			{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI, ""}},
		} {
			cfg.FilePath = filepath.Join(t.TempDir(), "f")
			if _, err := ratelimit.NewWithConfig(cfg); !errors.Is(err, ratelimit.ErrUnknownProvider) ||
				!strings.Contains(err.Error(), string(cfg.Providers[len(cfg.Providers)-1])) {
				t.Errorf("%q: %v", cfg.Providers, err)
			}
		}
		rl, told := unknownLimiter(t, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
		before := len(rl.Quotas)
		rl.AddProvider(ratelimit.ProviderLocal)
		rl.AddProvider("antropic")
		if got := told(); len(got) != 1 || !strings.Contains(got[0], "antropic") || len(rl.Quotas) != before {
			t.Errorf("OnError got %q, and there are %d quotas, want %d", got, len(rl.Quotas), before)
		}
	})
}

func TestTiers(t *testing.T) {
	for _, tt := range []struct {
		tiers map[ratelimit.Provider]string
		want  string // a part of the error
	}{
		{map[ratelimit.Provider]string{ratelimit.ProviderAnthropic: "Scale"}, ""},
		{map[ratelimit.Provider]string{ratelimit.ProviderAnthropic: "gold"}, "gold"},
		{map[ratelimit.Provider]string{ratelimit.ProviderOpenAI: "build"}, `Tiers names the provider "openai"`},
		{map[ratelimit.Provider]string{"antropic": "scale"}, `unknown provider "antropic"`},
	} {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "f"), Tiers: tt.tiers,
			Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic},
		})
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v", tt.tiers, err)
			}
			if _, misspelt := tt.tiers["antropic"]; misspelt != errors.Is(err, ratelimit.ErrUnknownProvider) {
				t.Errorf("%v: %v is ErrUnknownProvider, or not", tt.tiers, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, q, ok := rl.QuotaFor("claude-opus-5"); !ok || q.MaxRPM != 10_000 {
			t.Errorf("at the tier Scale the quota is %+v", q)
		}
		rl.SetQuota("claude-opus-5", ratelimit.ModelQuota{})
		rl.AddProvider(ratelimit.ProviderAnthropic)
		if _, q, ok := rl.QuotaFor("claude-opus-5"); !ok || q.MaxRPM != 10_000 {
			t.Errorf("at the tier Scale AddProvider sets the quota %+v", q)
		}
	}
}

// A profile that is older than 90 days is told of at the first decision by it: once a
// process and provider, and not where the program has said another quota.
func TestStaleProfile(t *testing.T) {
	ratelimit.ForgetToldStale()
	defer ratelimit.ForgetToldStale()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2027, 12, 1, 0, 0, 0, 0, time.UTC)))
		both := []ratelimit.Provider{ratelimit.ProviderOpenAI, ratelimit.ProviderAnthropic}
		one, toldOne := unknownLimiter(t, ratelimit.Config{Providers: both, Quotas: map[string]ratelimit.ModelQuota{"o1": {MaxRPM: 500, MaxTPM: 30_001}}})
		other, toldOther := unknownLimiter(t, ratelimit.Config{Providers: both})
		one.RecordUsage("o1", 1, 1)
		if got := toldOne(); len(got) != 0 {
			t.Errorf("of a quota of the program OnError got %q", got)
		}
		for range 2 {
			one.RecordUsage("gpt-4-turbo", 1, 1)
			one.RecordUsage("o3-mini", 1, 1)
			other.RecordUsage("gpt-4-turbo", 1, 1)
			one.RecordUsage("claude-sonnet-4", 1, 1)
		}
		got := toldOne()
		if len(got) != 2 || !strings.Contains(got[0], "claude-sonnet-4") || !strings.Contains(got[1], "gpt-4-turbo") || !strings.Contains(got[1], "2026-") {
			t.Errorf("OnError got %q, want one of each provider", got)
		}
		if got := toldOther(); len(got) != 0 {
			t.Errorf("another limiter of the process got %q", got)
		}
	})
}

func TestExplainOfAnUnknownModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, told := unknownLimiter(t, ratelimit.Config{Unknown: ratelimit.UnknownDeny})
		if e := rl.Explain("gpt-4p"); e.Next.Code != ratelimit.DecisionUnknownModel || !e.Next.Never || !strings.Contains(e.String(), "gpt-4o") {
			t.Errorf("it is explained as\n%v", e)
		}
		if got := told(); len(got) != 0 {
			t.Errorf("an explanation is no call, and OnError got %q", got)
		}
		rl.SetQuota("gpt-4*", ratelimit.ModelQuota{MaxRPM: 1})
		if e := rl.Explain("gpt-4p"); e.Quota != "gpt-4*" {
			t.Errorf("under a pattern it is explained by the quota %q", e.Quota)
		}
	})
}

// Every way to decide by an old profile tells of it: without a charge, with usage from a file, and
// when the profile grows old while a model is in use.
func TestStaleProfileIsToldAtADecision(t *testing.T) {
	defer ratelimit.ForgetToldStale()
	decide := map[string]func(*ratelimit.RateLimiter, string){
		"Acquire": func(rl *ratelimit.RateLimiter, model string) { rl.Acquire(context.Background(), model, 1, 1) },
	}
	for name, way := range unknownWays {
		decide[name] = func(rl *ratelimit.RateLimiter, model string) { way(rl, model) }
	}
	decide["ReserveAll"] = func(rl *ratelimit.RateLimiter, model string) {
		rl.ReserveAll(ratelimit.Request{Model: model}, ratelimit.Request{Model: "own"})
	}
	for name, decide := range decide {
		for _, model := range []string{"gpt-4o", "gpt-6-luna-2026-10-08", "gemini-2.0-flash-lite"} {
			onKinds(t, func(t *testing.T, p *place) {
				ratelimit.ForgetToldStale()
				time.Sleep(time.Until(time.Date(2027, 12, 1, 0, 0, 0, 0, time.UTC)))
				cfg := ratelimit.Config{
					Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI, ratelimit.ProviderGemini},
					Quotas:    map[string]ratelimit.ModelQuota{"own": {}},
				}
				rl, told := p.openUnknown(t, cfg)
				rl.Stats(model)
				if got := told(); len(got) != 0 {
					t.Errorf("%s: before a decision OnError got %q", name, got)
				}
				decide(rl, model)
				decide(rl, model)
				if got := told(); len(got) != 1 || !strings.Contains(got[0], model) {
					t.Errorf("%s: OnError got %q, want one of %s", name, got, model)
				}
			})
		}
	}
}

func TestStaleProfileOfAModelWithUsage(t *testing.T) {
	defer ratelimit.ForgetToldStale()
	for _, backend := range backends {
		synctest.Test(t, func(t *testing.T) {
			ratelimit.ForgetToldStale()
			time.Sleep(time.Until(time.Date(2027, 1, 5, 12, 0, 0, 0, time.UTC))) // half a day before
			cfg := ratelimit.Config{
				Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}, Backend: backend,
				Quotas: map[string]ratelimit.ModelQuota{"own": {}}, FilePath: filepath.Join(t.TempDir(), "state"),
			}
			rl, told := unknownLimiter(t, cfg)
			for range 11 {
				rl.RecordUsage("gpt-6-luna", 1, 1)
				rl.CanSend("gpt-6-luna", 1)
				time.Sleep(time.Hour)
			}
			if got := told(); len(got) != 0 {
				t.Errorf("of a quota read 90 days ago OnError got %q", got)
			}
			if err := rl.Persist(); err != nil {
				t.Fatal(err)
			}
			later, toldLater := unknownLimiter(t, cfg)
			if err := later.Load(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Hour)
			for range 2 {
				later.CanSend("gpt-6-luna", 1)
				rl.CanSend("gpt-6-luna", 1)
			}
			if got := append(toldLater(), told()...); len(got) != 1 {
				t.Errorf("%s: OnError got %q, want one", backend, got)
			}
			rl.Close()
			later.Close()
		})
	}
}
