// The cause of a cooldown: in decisions, over restarts, between processes.

package ratelimit_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// oneAMinute is a model m of one request a minute.
var oneAMinute = quotas{"m": {MaxRPM: 1, MaxTPM: 100}}

func TestDecisionTellsTheCause(t *testing.T) {
	const cools = "the model is in a cooldown"
	hour := func(rl *ratelimit.RateLimiter, cause ratelimit.Cause) { rl.CooldownFor("m", time.Hour, cause) }
	for _, tt := range []struct {
		name   string
		do     func(rl *ratelimit.RateLimiter)
		code   ratelimit.DecisionCode
		cause  ratelimit.Cause
		reason string
		retry  time.Duration
	}{
		{"none", func(rl *ratelimit.RateLimiter) {}, ratelimit.DecisionAllowed, "", "within the quota", 0},
		{"a limit", func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 1, 1) }, ratelimit.DecisionRPMLimit, "", "requests per minute are used up", time.Minute + 1},
		{"daily quota", func(rl *ratelimit.RateLimiter) { hour(rl, ratelimit.CauseDailyQuota) }, ratelimit.DecisionCooldown, "daily_quota",
			cools + ": the provider said that the day's quota is used up", time.Hour},
		{"rate limited", func(rl *ratelimit.RateLimiter) { hour(rl, ratelimit.CauseRateLimited) }, ratelimit.DecisionCooldown, "rate_limited",
			cools + ": the provider said that its rate limit is exceeded", time.Hour},
		{"overloaded", func(rl *ratelimit.RateLimiter) { hour(rl, ratelimit.CauseOverloaded) }, ratelimit.DecisionCooldown, "overloaded",
			cools + ": the provider said that it is overloaded", time.Hour},
		{"caller", func(rl *ratelimit.RateLimiter) { hour(rl, ratelimit.CauseCaller) }, ratelimit.DecisionCooldown, "caller", cools, time.Hour},
		{"Cooldown", func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now().Add(time.Hour)) }, ratelimit.DecisionCooldown, "caller", cools, time.Hour},
		{"one of the program's own", func(rl *ratelimit.RateLimiter) { hour(rl, "budget_2026") }, ratelimit.DecisionCooldown, "budget_2026", cools, time.Hour},
		{"an odd one", func(rl *ratelimit.RateLimiter) { hour(rl, "Budget!") }, ratelimit.DecisionCooldown, "caller", cools, time.Hour},
		{"a long one", func(rl *ratelimit.RateLimiter) { hour(rl, ratelimit.Cause(strings.Repeat("x", 65))) }, ratelimit.DecisionCooldown, "caller", cools, time.Hour},
		{"an empty one", func(rl *ratelimit.RateLimiter) { hour(rl, "") }, ratelimit.DecisionCooldown, "caller", cools, time.Hour},
		{"no time", func(rl *ratelimit.RateLimiter) { rl.CooldownFor("m", 0, "caller") }, ratelimit.DecisionAllowed, "", "within the quota", 0},
		{"negative time", func(rl *ratelimit.RateLimiter) { rl.CooldownFor("m", -1, "caller") }, ratelimit.DecisionAllowed, "", "within the quota", 0},
		{"the later wins", func(rl *ratelimit.RateLimiter) {
			hour(rl, ratelimit.CauseOverloaded)
			rl.CooldownFor("m", 2*time.Hour, ratelimit.CauseDailyQuota)
			rl.Cooldown("m", time.Now().Add(time.Minute))
		}, ratelimit.DecisionCooldown, "daily_quota", cools + ": the provider said that the day's quota is used up", 2 * time.Hour},
		{"of equal ends the first", func(rl *ratelimit.RateLimiter) {
			hour(rl, ratelimit.CauseOverloaded)
			hour(rl, ratelimit.CauseDailyQuota)
		}, ratelimit.DecisionCooldown, "overloaded", cools + ": the provider said that it is overloaded", time.Hour},
		{"after a reset another", func(rl *ratelimit.RateLimiter) {
			hour(rl, ratelimit.CauseOverloaded)
			rl.Reset("m")
			hour(rl, ratelimit.CauseDailyQuota)
		}, ratelimit.DecisionCooldown, "daily_quota", cools + ": the provider said that the day's quota is used up", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onKinds(t, func(t *testing.T, p *place) {
				rl := p.open(t, ratelimit.Config{Quotas: oneAMinute})
				tt.do(rl)
				want := ratelimit.Decision{
					Allowed: tt.code == ratelimit.DecisionAllowed, Code: tt.code, Reason: tt.reason, RetryAfter: tt.retry, Model: "m", Cause: tt.cause,
				}
				d := rl.Decide("m", 1)
				_, reserved := rl.ReserveAll(ratelimit.Request{Model: "m", PromptTokens: 1}, ratelimit.Request{Model: "other"})
				for name, got := range map[string]ratelimit.Decision{"Decide": d, "ReserveAll": reserved} {
					if got.Stats = (ratelimit.ModelStats{}); name == "ReserveAll" && got.Allowed {
						continue // which has no model
					}
					if got != want {
						t.Errorf("%s: %+v\nwant %+v", name, got, want)
					}
				}
			})
		})
	}
}

// A refusal by the deadline, and one behind others in line.
func TestCauseOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := openLimiter(t, ratelimit.Config{Quotas: oneAMinute})
		rl.CooldownFor("m", time.Hour, ratelimit.CauseDailyQuota)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var refused *ratelimit.LimitError
		if _, err := rl.Acquire(ctx, "m", 1, 0); !errors.As(err, &refused) || refused.Decision.Cause != ratelimit.CauseDailyQuota {
			t.Errorf("Acquire = %v", err)
		} else if !strings.Contains(err.Error(), "the day's quota is used up") {
			t.Errorf("%q does not say why", err)
		}
		if d := rl.Decide("m", 101); !d.Never || d.Cause != ratelimit.CauseDailyQuota {
			t.Errorf("too large: %+v", d)
		}
		if d := rl.Decide("m", -1); d.Cause != "" {
			t.Errorf("negative: %+v", d)
		}
		waits, leave := context.WithCancel(t.Context())
		go rl.Acquire(waits, "m", 1, 0)
		synctest.Wait()
		if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionQueued || d.Cause != "" {
			t.Errorf("behind a waiter: %+v", d)
		}
		leave()
		synctest.Wait()
		time.Sleep(time.Hour)
		if d := rl.Decide("m", 1); !d.Allowed || d.Cause != "" {
			t.Errorf("after the cooldown: %+v", d)
		}
	})
}

// A model that Config.Unknown denies has no cause, although it is in a cooldown.
func TestCauseOfAnUnknownModel(t *testing.T) {
	rl := openLimiter(t, ratelimit.Config{Quotas: oneAMinute, Unknown: ratelimit.UnknownDeny})
	rl.CooldownFor("other", time.Hour, ratelimit.CauseDailyQuota)
	if d := rl.Decide("other", 1); d.Code != ratelimit.DecisionUnknownModel || d.Cause != "" {
		t.Errorf("%+v", d)
	}
}

// Every backend keeps the cause of a cooldown, in a file that another limiter then loads.
func TestCauseIsStored(t *testing.T) {
	for _, backend := range []string{"yaml", "sqlite", "shared"} {
		t.Run(backend, func(t *testing.T) {
			cfg := ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "state"), Backend: backend, Quotas: oneAMinute}
			if backend != "yaml" {
				needSQLite(t)
			}
			if backend == "shared" {
				cfg.Backend, cfg.Shared = "sqlite", true
			}
			one := openLimiter(t, cfg)
			other := openLimiter(t, cfg)
			causes := map[string]ratelimit.Cause{
				"d": ratelimit.CauseDailyQuota, "r": ratelimit.CauseRateLimited, "o": ratelimit.CauseOverloaded,
				"c": ratelimit.CauseCaller, "own": "no", "number": "0x1",
			}
			for model, cause := range causes {
				one.CooldownFor(model, time.Hour, cause)
			}
			check := func(rl *ratelimit.RateLimiter, who string) {
				for model, cause := range causes {
					if d := rl.Decide(model, 1); d.Cause != cause || d.Code != ratelimit.DecisionCooldown {
						t.Errorf("%s: %s: %+v, want the cause %q", who, model, d, cause)
					}
				}
			}
			if !cfg.Shared {
				if err := errors.Join(one.Persist(), other.Load()); err != nil {
					t.Fatal(err)
				}
			}
			check(other, "the other")
			other.CooldownFor("d", 2*time.Hour, ratelimit.CauseOverloaded)
			other.Reset("r")
			other.CooldownFor("r", time.Minute, ratelimit.CauseDailyQuota)
			causes["d"], causes["r"] = ratelimit.CauseOverloaded, ratelimit.CauseDailyQuota
			if !cfg.Shared {
				if err := errors.Join(other.Persist(), other.Load()); err != nil {
					t.Fatal(err)
				}
			}
			check(other, "the other again")
			if err := errors.Join(one.Close(), other.Close()); err != nil {
				t.Fatal(err)
			}
			again := openLimiter(t, cfg)
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			check(again, "a third")
		})
	}
}

// A cooldown until a time long past is none, also where the store's clock is behind.
func TestStoreCooldownOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		fake.Jump(-time.Minute)
		rl := overStore(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}}})
		for _, until := range []time.Time{{}, time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()} {
			if rl.Cooldown("m", until); !rl.CanSend("m", 1) {
				t.Errorf("a cooldown until %v denies", until)
			}
		}
	})
}
