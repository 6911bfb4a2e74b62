// Limits that are found, where the headers of the provider say them.

package foundlimits

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// adaptiveSpaced reports whether a model spaces its calls: two at once do not pass.
func adaptiveSpaced(t *testing.T, rl *ratelimit.RateLimiter, model string) bool {
	t.Helper()
	time.Sleep(time.Minute)
	for i := range 2 {
		r, d := rl.Reserve(model, 1, 0)
		if r == nil {
			if i == 0 {
				t.Fatalf("after a minute without calls: %+v", d)
			}
			return true
		}
		r.Commit(1, 0)
	}
	return false
}

// Each row: what a provider reports, and whether what is found still spaces calls then.
func TestAdaptiveHeadersWin(t *testing.T) {
	type limits = ratelimit.ProviderLimits
	report := func(n int) ratelimit.ProviderLimit {
		return ratelimit.ProviderLimit{Limit: n, Remaining: n, HasRemaining: true, Reset: time.Minute}
	}
	for _, tt := range []struct {
		name   string
		learns bool
		limits limits
		spaced bool
	}{
		{"requests of the minute", true, limits{RPM: report(5000)}, false},
		{"tokens of the minute", true, limits{TPM: report(1 << 20)}, false},
		{"input tokens of the minute", true, limits{ITPM: report(1 << 20)}, false},
		{"output tokens of the minute", true, limits{OTPM: report(1 << 20)}, false},
		{"only the limit", true, limits{RPM: ratelimit.ProviderLimit{Limit: 5000}}, false},
		{"in a refusal", true, limits{RPM: report(5000), Refused: true}, false},
		{"nothing", true, limits{}, true},
		{"impossible", true, limits{RPM: ratelimit.ProviderLimit{Limit: -5, Remaining: -5, HasRemaining: true}}, true},
		{"of the day", true, limits{RPD: report(5000), TPD: report(1 << 20)}, true},
		{"without LearnQuotas", false, limits{RPM: report(5000)}, true},
		{"tokens without LearnQuotas", false, limits{TPM: report(1 << 20)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.With(t, ratelimit.Config{LearnQuotas: tt.learns, Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth, "n": adaptiveBoth}})
				rl.Observe("m", tt.limits)
				if n := rl.Stats("m").AdaptiveRPM; (n > 0) != tt.spaced {
					t.Errorf("the rate that was found is %d", n)
				}
				if n := rl.Stats("m").AdaptiveInFlight; n != 20 {
					t.Errorf("%d slots, want 20: no header tells of them", n)
				}
				if is := adaptiveSpaced(t, rl, "m"); is != tt.spaced {
					t.Errorf("calls are spaced: %v, want %v", is, tt.spaced)
				}
				adaptiveRefuse(rl, "m", "rate_limited")
				if n := rl.Stats("m").AdaptiveRPM; (n > 0) != tt.spaced {
					t.Errorf("after a refusal the rate that was found is %d", n)
				}
				adaptiveRefuse(rl, "m", "overloaded")
				if n := rl.Stats("m").AdaptiveInFlight; n != 19 {
					t.Errorf("%d slots after overload, want 19", n)
				}
				if !adaptiveSpaced(t, rl, "n") {
					t.Error("another model is not spaced")
				}
			})
		})
	}
}

// The limit that a header says holds, and that of the program stays a cap.
func TestAdaptiveHeadersAreLimits(t *testing.T) {
	for cap, want := range map[int]int{0: 7, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.With(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{
				"m": {MaxRPM: cap, AdaptiveFloorRPM: 60},
			}})
			rl.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 7}})
			for i := range want {
				if r, d := rl.Reserve("m", 0, 0); r == nil {
					t.Fatalf("call %d: %+v", i+1, d)
				} else {
					r.Commit(0, 0)
				}
			}
			if d := rl.Decide("m", 0); d.Allowed || d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter != time.Minute+1 {
				t.Errorf("the program's %d, the provider's 7: %+v", cap, d)
			}
		})
	}
}

// Each row: what brings the search back after a header has said the limit.
func TestAdaptiveSearchComesBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(rl *ratelimit.RateLimiter)
		spaced bool
	}{
		{"nothing", func(rl *ratelimit.RateLimiter) {}, false},
		{"ForgetLearned", func(rl *ratelimit.RateLimiter) { rl.ForgetLearned("m") }, true},
		{"ForgetLearned of all", func(rl *ratelimit.RateLimiter) { rl.ForgetLearned("") }, true},
		{"ForgetLearned of another", func(rl *ratelimit.RateLimiter) { rl.ForgetLearned("n") }, false},
		{"SetQuota", func(rl *ratelimit.RateLimiter) { rl.SetQuota("m", adaptiveBoth) }, true},
		{"SetQuota of another", func(rl *ratelimit.RateLimiter) { rl.SetQuota("n", adaptiveBoth) }, false},
		{"RemoveQuota and SetQuota", func(rl *ratelimit.RateLimiter) { rl.RemoveQuota("m"); rl.SetQuota("m", adaptiveBoth) }, true},
		{"Reset", func(rl *ratelimit.RateLimiter) { rl.Reset("m") }, false},
		{"a day", func(rl *ratelimit.RateLimiter) { time.Sleep(24 * time.Hour) }, false},
		{"ForgetLearned after many calls", func(rl *ratelimit.RateLimiter) {
			for range 4000 {
				r, _ := rl.Reserve("m", 0, 0)
				r.Commit(0, 0)
			}
			rl.ForgetLearned("m")
		}, true},
		{"forgotten, and said again", func(rl *ratelimit.RateLimiter) {
			rl.ForgetLearned("m")
			rl.Observe("m", ratelimit.ProviderLimits{TPM: ratelimit.ProviderLimit{Limit: 1 << 20}})
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.With(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth}})
				rl.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 5000}})
				tt.do(rl)
				n := rl.Stats("m").AdaptiveRPM
				if tt.spaced && (n < 60 || n > 120) || !tt.spaced && n != 0 {
					t.Errorf("the rate is %d", n)
				}
				if is := adaptiveSpaced(t, rl, "m"); is != tt.spaced {
					t.Errorf("calls are spaced: %v, want %v", is, tt.spaced)
				}
			})
		})
	}
}

// What a header has said holds after a restart, as long as the program learns.
func TestAdaptiveHeadersOverRestart(t *testing.T) {
	for _, backend := range limitertest.Backends() {
		for _, learns := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.Config{
					LearnQuotas: true, Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"),
					Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth},
				}
				rl := adaptiveOpen(t, cfg)
				rl.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 5000}})
				adaptiveCatchUp(t, rl)
				cfg.LearnQuotas = learns
				again := adaptiveOpen(t, cfg)
				if err := again.Load(); err != nil {
					t.Fatal(err)
				}
				if is := adaptiveSpaced(t, again, "m"); is == learns {
					t.Errorf("%s, LearnQuotas %v: calls are spaced: %v", backend, learns, is)
				}
			})
		}
	}
}

// Explain says what was found, in numbers and in words.
func TestAdaptiveExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, adaptiveBoth)
		adaptiveRefuse(rl, "m", "rate_limited")
		adaptiveRefuse(rl, "m", "overloaded")
		limitertest.Reserve(t, rl, "m", 0, 0).Commit(0, 0)
		e := rl.Explain("m")
		if s := e.Next.Stats; s.AdaptiveRPM != 114 || s.AdaptiveInFlight != 19 {
			t.Errorf("Next has %+v", s)
		}
		text := e.String()
		for _, want := range []string{"114", "19", "waits"} {
			if !strings.Contains(text, want) {
				t.Errorf("it says nothing of %s:\n%s", want, text)
			}
		}
		if e.Found == nil || e.Found.RPM != 114 || e.Found.InFlight != 19 || e.Found.FloorRPM != 60 || e.Found.CeilingInFlight != 1000 {
			t.Errorf("what was found is %s", limitertest.JSON(t, e.Found))
		}
	})
}

// Of the models that "*" or a pattern covers, only the one whose provider says its limits ends its
// search, until that is forgotten. Another quota for all of them bounds what each has found.
func TestAdaptiveHeadersOfCoveredModels(t *testing.T) {
	for _, quota := range []string{"*", "llama-*"} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.With(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{quota: {AdaptiveFloorRPM: 60}}})
			spaced := func(when string, want ...bool) {
				t.Helper()
				for i, model := range []string{"llama-1", "llama-2"} {
					if is := adaptiveSpaced(t, rl, model); is != want[i] {
						t.Errorf("%s, %s: calls of %s are spaced: %v", quota, when, model, is)
					}
				}
			}
			spaced("at first", true, true)
			adaptiveRefuse(rl, "llama-1", "rate_limited")
			rl.Observe("llama-1", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 5000}})
			spaced("after a header", false, true)
			rl.ForgetLearned("llama-1")
			spaced("after it is forgotten", true, true)
			if a, b := rl.Stats("llama-1").AdaptiveRPM, rl.Stats("llama-2").AdaptiveRPM; a < 100 || a > 114 || b < 115 {
				t.Errorf("%s: %d and %d a minute are found", quota, a, b)
			}
			rl.SetQuota(quota, ratelimit.ModelQuota{AdaptiveFloorRPM: 10, AdaptiveCeilingRPM: 30})
			if a, b := rl.Stats("llama-1").AdaptiveRPM, rl.Stats("llama-2").AdaptiveRPM; a != 30 || b != 30 {
				t.Errorf("%s: %d and %d a minute below 30", quota, a, b)
			}
		})
	}
}

// Events tell of each refusal, and not of a call without an answer.
func TestAdaptiveEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		rl := limitertest.With(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth},
			Events: ratelimit.EventHandlers(adaptiveListener(func(e *ratelimit.Event) { told = append(told, string(e.Kind)+" "+e.Problem) })),
		})
		for _, problem := range []string{"timeout", "rate_limited", "overloaded", "timeout", "other", "?"} {
			adaptiveRefuse(rl, "m", problem)
		}
		want := []string{"provider_refused rate_limited", "provider_refused overloaded", "provider_refused other", "provider_refused other"}
		if !slices.Equal(told, want) {
			t.Errorf("events are %q, want %q", told, want)
		}
	})
}

type adaptiveListener func(e *ratelimit.Event)

func (l adaptiveListener) HandleEvent(_ context.Context, e *ratelimit.Event) { l(e) }

// Files of configuration have the fields under their names.
func TestAdaptiveConfig(t *testing.T) {
	const fields = "adaptive_floor_rpm: 60\n    adaptive_ceiling_rpm: 6000\n    adaptive_floor_in_flight: 10\n    adaptive_ceiling_in_flight: "
	cfg, err := ratelimit.ReadConfig(strings.NewReader("quotas:\n  m:\n    " + fields + "1000\n"))
	if err != nil || cfg.Quotas["m"] != adaptiveBoth {
		t.Errorf("%+v, %v", cfg.Quotas, err)
	}
	for _, bad := range []string{"-1", "9", "x", "1.5"} {
		cfg, err := ratelimit.ReadConfig(strings.NewReader("quotas:\n  m:\n    " + fields + bad + "\n"))
		if err == nil {
			cfg.FilePath = "/dev/null/none"
			_, err = ratelimit.NewWithConfig(cfg)
		}
		if err == nil || !strings.Contains(strings.ToLower(strings.ReplaceAll(err.Error(), "_", "")), "inflight") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var q ratelimit.ModelQuota
	if err := json.Unmarshal([]byte(limitertest.JSON(t, adaptiveBoth)), &q); err != nil || q != adaptiveBoth {
		t.Errorf("through JSON it is %+v, %v", q, err)
	}
}
