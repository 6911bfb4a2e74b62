// Health and Explain: a model of which every call is refused, from the first on.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// Each row: why every call of "m" is refused. None of them leaves an entry in State.
func TestAllRefused(t *testing.T) {
	quotas := func(q ratelimit.ModelQuota) ratelimit.Config {
		return ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q, "x": {}}}
	}
	for _, tt := range []struct {
		name   string
		cfg    ratelimit.Config
		before func(rl *ratelimit.RateLimiter)
		code   ratelimit.DecisionCode
	}{
		{name: "unpriced", cfg: quotas(ratelimit.ModelQuota{MaxSpendPerDay: money.USD(1)}), code: ratelimit.DecisionUnpriced},
		{name: "invalid quota", cfg: quotas(ratelimit.ModelQuota{}), before: func(rl *ratelimit.RateLimiter) {
			rl.Quotas["m"] = ratelimit.ModelQuota{MaxRPM: -1}
		}, code: ratelimit.DecisionInvalidQuota},
		{name: "never fits", cfg: quotas(ratelimit.ModelQuota{MaxTPM: 1}), code: ratelimit.DecisionTPMLimit},
		{name: "cooldown", cfg: quotas(ratelimit.ModelQuota{MaxRPM: 10}), before: func(rl *ratelimit.RateLimiter) {
			rl.CooldownFor("m", time.Hour, ratelimit.CauseOverloaded)
		}, code: ratelimit.DecisionCooldown},
		{name: "cooldown without a quota", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"x": {}}}, before: func(rl *ratelimit.RateLimiter) {
			rl.CooldownFor("m", time.Hour, ratelimit.CauseOverloaded)
		}, code: ratelimit.DecisionCooldown},
		{name: "pool full", cfg: ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {}, "x": {}},
			Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 1}}},
		}, before: func(rl *ratelimit.RateLimiter) { rl.RecordUsage("x", 1, 1) }, code: ratelimit.DecisionRPDLimit},
		{name: "unknown", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"x": {}}, Unknown: ratelimit.UnknownDeny}, code: ratelimit.DecisionUnknownModel},
		{name: "never fits under *", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 1}}}, code: ratelimit.DecisionTPMLimit},
		{name: "too many models", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}}, MaxModels: 1},
			before: func(rl *ratelimit.RateLimiter) { rl.Reserve("x", 1, 1) }, code: ratelimit.DecisionTooManyModels},
	} {
		for way, call := range map[string]func(rl *ratelimit.RateLimiter){
			"Reserve":    func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 1) },
			"ReserveAll": func(rl *ratelimit.RateLimiter) { rl.ReserveAll(ratelimit.Request{Model: "m", PromptTokens: 2}) },
			"Acquire": func(rl *ratelimit.RateLimiter) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if _, err := rl.Acquire(ctx, "m", 1, 1); err == nil {
					t.Errorf("%s: it was served", tt.name)
				}
			},
			"reads": func(rl *ratelimit.RateLimiter) {
				rl.CanSend("m", 2)
				rl.Decide("m", 2)
				rl.Stats("m")
				rl.Explain("m")
			},
		} {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/shared %t", tt.name, way, shared), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rl := sharedOrNot(t, shared, tt.cfg)
						defer rl.Close()
						if tt.before != nil {
							tt.before(rl)
						}
						for range 200 {
							call(rl)
						}
						if stats := rl.State["m"]; stats != nil {
							t.Errorf("it is in State: %+v", stats)
						}
						h, last := rl.Health(), rl.Explain("m").LastRefusal
						if way == "reads" {
							if len(h.Warnings) > 0 || last != nil {
								t.Errorf("a read is taken for a call: %v, %+v", h.Warnings, last)
							}
							return
						}
						if last == nil || last.Code != tt.code || last.Reason == "" || !last.At.Equal(time.Now()) {
							t.Errorf("the last refusal is %+v, want %s", last, tt.code)
						}
						var denials *ratelimit.DenialsError
						if len(h.Warnings) != 1 || !errors.As(h.Warnings[0], &denials) ||
							denials.Model != "m" || denials.Refused != 200 || denials.Calls != 200 || denials.Code != tt.code {
							t.Errorf("warned of %v, want 200 of 200", h.Warnings)
						}
						time.Sleep(70 * time.Second)
						if got := warned(rl); len(got) > 0 {
							t.Errorf("a minute later: %q", got)
						}
					})
				})
			}
		}
	}
}

// Refusals outlive the upkeep of a model that is not used, and 10,000 names that somebody invents.
func TestRefusalsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"own": {MaxTPM: 1}, "pruned": {MaxTPM: 10}}, Unknown: ratelimit.UnknownDeny,
		})
		defer rl.Close()
		rl.RecordUsage("pruned", 1, 0)
		time.Sleep(25 * time.Hour)
		for range 200 {
			rl.Reserve("own", 2, 0)
			rl.Reserve("pruned", 11, 0)
		}
		defer rl.BackgroundPrune(time.Second)()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range 10_000 {
			rl.Reserve(fmt.Sprint("invented", i), 1, 1)
			if i%100 == 0 {
				rl.Reserve("meant", 1, 1)
				rl.Reserve("meant", 1, 1)
			}
		}
		if len(rl.State) > 0 {
			t.Errorf("%d entries in State", len(rl.State))
		}
		got := strings.Join(warned(rl), "\n")
		for _, want := range []string{`200 of 200 calls of "own"`, `200 of 200 calls of "pruned"`, `200 of 200 calls of "meant"`} {
			if !strings.Contains(got, want) {
				t.Errorf("warned of\n%s\nwithout %s", got, want)
			}
		}
		if rl.Explain("invented9999").LastRefusal == nil || rl.Explain("invented0").LastRefusal != nil {
			t.Error("of the invented names not the last are remembered")
		}
		if rl.Reset(""); len(warned(rl)) > 0 || rl.Explain("own").LastRefusal != nil {
			t.Error("refusals outlive a Reset")
		}
	})
}

// A call that has no place under MaxModels counts in its pool only, whose name is no model's.
func TestHealthNamesNoPool(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rl := sharedOrNot(t, shared, ratelimit.Config{MaxModels: 1, Pools: map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 1000}}}})
			defer rl.Close()
			held, _ := rl.Reserve("a", 1, 0)
			defer held.Cancel()
			for range 40 {
				r, d := rl.Reserve("b", 1000, 0)
				if r == nil {
					t.Fatal(d.Reason)
				}
				r.Commit(1, 0)
			}
			if got := warned(rl); strings.Contains(strings.Join(got, ""), "pool:") {
				t.Errorf("shared %t: warned of %q", shared, got)
			}
		})
	}
}
