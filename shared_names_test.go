//go:build !nosqlite

// What a quota that another process sets means for names, with Config.Shared.

package ratelimit_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestSharedCooldownFollowsTheNameThatAnotherProcessMakes(t *testing.T) {
	const dated = "m2-2024-08-06"
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		versions := func(cfg *ratelimit.Config) { cfg.MatchVersions = true }
		a, b := openShared(t, path, versions), openShared(t, path, versions)
		until := time.Now().Add(time.Hour)
		a.Cooldown(dated, until)
		if d := b.Decide(dated, 1); d.Code != ratelimit.DecisionCooldown {
			t.Fatalf("before: %+v", d)
		}
		b.SetQuota("m2", ratelimit.ModelQuota{MaxRPM: 5})
		limiters := []struct {
			name string
			rl   *ratelimit.RateLimiter
		}{{"who was there", a}, {"who set it", b}, {"who comes then", openShared(t, path, versions)}}
		for _, l := range limiters {
			for _, model := range []string{dated, "m2"} {
				if d := l.rl.Decide(model, 1); d.Code != ratelimit.DecisionCooldown || d.RetryAfter != time.Hour {
					t.Errorf("%s: Decide(%q) = %+v", l.name, model, d)
				}
				if l.rl.CanSend(model, 1) {
					t.Errorf("%s: may send to %q", l.name, model)
				}
				if s := l.rl.Stats(model); !s.CooldownUntil.Equal(until) {
					t.Errorf("%s: stats of %q are %+v", l.name, model, s)
				}
			}
		}
		// In the order of the file: what ends it under its new name ends it for all.
		a.Reset("m2")
		b.Cooldown("m3-2024-08-06", until)
		b.SetQuota("m3", ratelimit.ModelQuota{MaxRPM: 5})
		b.Reset("m3")
		limiters = append(limiters, struct {
			name string
			rl   *ratelimit.RateLimiter
		}{"who comes last", openShared(t, path, versions)})
		for _, l := range limiters {
			for _, model := range []string{dated, "m2", "m3", "m3-2024-08-06"} {
				if d := l.rl.Decide(model, 1); !d.Allowed {
					t.Errorf("%s: after a Reset: Decide(%q) = %+v", l.name, model, d)
				}
			}
		}
	})
}

func TestSharedHeldBackFollowsTheNameThatAnotherProcessMakes(t *testing.T) {
	const dated = "m2-2024-08-06"
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		change := func(cfg *ratelimit.Config) {
			cfg.MatchVersions = true
			cfg.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}}
		}
		a, b := openShared(t, path, change), openShared(t, path, change)
		a.Observe(dated, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{HasRemaining: true}})
		if d := a.Decide(dated, 1); d.Code != ratelimit.DecisionRPMLimit {
			t.Fatalf("before: %+v", d)
		}
		b.SetQuota("m2", ratelimit.ModelQuota{MaxRPM: 5})
		if d := a.Decide(dated, 1); d.Code != ratelimit.DecisionRPMLimit {
			t.Errorf("after: %+v", d)
		}
	})
}

func TestSharedPlaceThatAnotherProcessFreesIsSeenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		change := func(cfg *ratelimit.Config) {
			cfg.MaxModels = 1
			cfg.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxRPD: 5}}
		}
		a, b := openShared(t, path, change), openShared(t, path, change)
		a.RecordUsage("x", 1, 1)
		if d := a.Decide("y", 1); d.Code != ratelimit.DecisionTooManyModels || d.RetryAfter != 24*time.Hour {
			t.Fatalf("before: %+v", d)
		}
		waited := make(chan error)
		go func() { waited <- a.WaitForCapacity(t.Context(), "z", 1) }()
		time.Sleep(time.Second)
		b.SetQuota("x", ratelimit.ModelQuota{MaxRPD: 5})
		if d := a.Decide("y", 1); !d.Allowed {
			t.Errorf("after: %+v", d)
		}
		began := time.Now()
		if err := <-waited; err != nil || time.Since(began) > sharedHandOver {
			t.Errorf("one that waits: %v, after %v", err, time.Since(began))
		}
	})
}
