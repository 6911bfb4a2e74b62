package instruments_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"dappco.re/go/core/go-ratelimit/money"
)

// own has each model and pool keep its name.
var own = instruments.Holds{
	Model: func(k instruments.Key) instruments.Key { return k }, Pool: func(name string) string { return name },
}

func newLimiter(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.FilePath = t.TempDir() + "/state.yaml"
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	})
	return rl
}

func samples(rl *ratelimit.RateLimiter, holds instruments.Holds) []string {
	var got []string
	instruments.Gauges(rl, holds, func(s *instruments.Sample) bool {
		got = append(got, fmt.Sprintf("%s %s%s%s%s%s%s %g", instruments.List[s.ID].Name, s.Model+s.Pool, in(s.Class), in(s.Dimension), in(s.Source),
			in(s.Period), in(s.Cause), s.Value))
		return true
	})
	return got
}

func in(s string) string {
	if s == "" {
		return ""
	}
	return "/" + s
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"a": {MaxRPM: 4, MaxTPM: 1000, MaxInFlight: 2}, "b": {MaxRPD: 5}, "pattern-*": {MaxRPM: 7},
		}})
		open, _ := rl.Acquire(t.Context(), "a", 100, 50)
		rl.RecordUsage("b", 1, 1)
		rl.CooldownFor("b", 90*time.Second, ratelimit.CauseDailyQuota)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := rl.Acquire(ctx, "b", 1, 1)
			done <- err
		}()
		synctest.Wait()
		equal(t, samples(rl, own), []string{
			"ratelimit.queued_requests a 0", "ratelimit.active_leases a 1",
			"ratelimit.quota.limit a/in_flight/program 2", "ratelimit.quota.used a/in_flight/program 1",
			"ratelimit.quota.utilization a/in_flight/program 0.5",
			"ratelimit.quota.limit a/rpm/program 4", "ratelimit.quota.used a/rpm/program 1",
			"ratelimit.quota.utilization a/rpm/program 0.25",
			"ratelimit.quota.limit a/tpm/program 1000", "ratelimit.quota.used a/tpm/program 150",
			"ratelimit.quota.utilization a/tpm/program 0.15",
			"ratelimit.queued_requests b 1", "ratelimit.active_leases b 0", "ratelimit.provider.pause b/daily_quota 90",
			"ratelimit.quota.limit b/rpd/program 5", "ratelimit.quota.used b/rpd/program 1",
			"ratelimit.quota.utilization b/rpd/program 0.2",
			"ratelimit.store.degraded  0",
		})
		cancel()
		if <-done == nil {
			t.Error("the call in line was admitted")
		}
		runtime.KeepAlive(open) // a reservation that is collected gives its slot back
	})
}

// Limits that are found are told where a quota searches for them, and have no source: the
// provider's refusals say them. Where its headers say its limits, there is no found rate.
func TestGaugesOfFoundLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{
			"both": {AdaptiveFloorRPM: 30, AdaptiveFloorInFlight: 2, MaxInFlight: 3}, "none": {MaxRPM: 5}, "told": {AdaptiveFloorRPM: 30},
		}})
		for _, problem := range []string{"rate_limited", "overloaded"} {
			rl.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: "both", Problem: problem})
		}
		rl.Observe("told", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 9}})
		var got []string
		for _, s := range samples(rl, own) {
			if strings.HasPrefix(s, "ratelimit.quota.found") || strings.HasPrefix(s, "ratelimit.quota.limit") {
				got = append(got, s)
			}
		}
		equal(t, got, []string{
			"ratelimit.quota.found both/rpm 57", "ratelimit.quota.found both/in_flight 3",
			"ratelimit.quota.limit both/in_flight/program 3", "ratelimit.quota.limit none/rpm/program 5", "ratelimit.quota.limit told/rpm/learned 9",
		})
		if is := rl.Stats("both"); is.AdaptiveRPM != 57 || is.AdaptiveInFlight != 3 {
			t.Errorf("Stats has %d and %d", is.AdaptiveRPM, is.AdaptiveInFlight)
		}
	})
}

// A quota of a profile has the provider and an age.
func TestGaugesOfProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderGemini}})
		var model string
		for model = range rl.Models() {
			break
		}
		readOn := rl.Explain(model).ProfileReadOn
		time.Sleep(time.Until(readOn.Add(48 * time.Hour)))
		ages := 0
		instruments.Gauges(rl, own, func(s *instruments.Sample) bool {
			if s.ID != instruments.StoreDegraded && s.Provider != ratelimit.ProviderGemini {
				t.Errorf("%s has the provider %q", s.Model, s.Provider)
			}
			if s.Model == model && s.ID == instruments.ProfileAge {
				ages++
				if s.Value != 48*3600 {
					t.Errorf("%s is %v seconds old, want two days", s.Model, s.Value)
				}
			}
			return true
		})
		if ages != 1 {
			t.Errorf("%d ages of %s, want one", ages, model)
		}
	})
}

// Models without a series of their own are one, which has no quota.
func TestGaugesOfOthers(t *testing.T) {
	rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 4}, "b": {MaxRPM: 4}, "c": {MaxRPM: 4}}})
	rl.Acquire(t.Context(), "b", 0, 0)
	rl.Acquire(t.Context(), "c", 0, 0)
	rl.Acquire(t.Context(), "c", 0, 0)
	table := instruments.NewTable(1, instruments.Other, func(instruments.Key) *int { return nil })
	equal(t, samples(rl, instruments.Holds{Model: table.Holds, Pool: own.Pool}), []string{
		"ratelimit.queued_requests a 0", "ratelimit.active_leases a 0",
		"ratelimit.quota.limit a/rpm/program 4", "ratelimit.quota.used a/rpm/program 0",
		"ratelimit.quota.utilization a/rpm/program 0",
		"ratelimit.queued_requests _other 0", "ratelimit.active_leases _other 3",
		"ratelimit.store.degraded  0",
	})
}

// A pool is told by instruments of its own, as a model is. Those that wait are told by class.
func TestGaugesOfPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerMonth: money.USD(5)}},
			Pools: map[string]ratelimit.Pool{
				"m":    {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 4, AdaptiveFloorInFlight: 2, MaxSpendPerDay: money.USD(2)}},
				"left": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 9}},
				"none": {},
			},
			Classes: map[string]ratelimit.Class{"batch": {}, "people": {}},
			Prices:  map[string]money.Price{"*": {Input: money.USD(1)}},
		})
		limited := []*ratelimit.Reservation{nil, nil, nil, nil}
		for i := range limited {
			limited[i], _ = rl.Acquire(t.Context(), "m", 250_000, 0)
		}
		for _, class := range []string{"batch", "batch", "people", "unknown"} {
			go rl.Acquire(ratelimit.WithClass(t.Context(), class), "m", 1, 0)
		}
		synctest.Wait()
		holds := own
		holds.Pool = func(name string) string {
			if name == "left" {
				return instruments.OtherName
			}
			return name
		}
		want := []string{
			"ratelimit.queued_requests m 1", "ratelimit.queued_requests m/batch 2", "ratelimit.queued_requests m/people 1",
			"ratelimit.active_leases m 4", "ratelimit.budget.limit m/month 5",
			"ratelimit.budget.spent m/month 1", "ratelimit.budget.spent m/day 1",
			"ratelimit.pool.queued_requests m 4", "ratelimit.pool.active_leases m 4", "ratelimit.pool.quota.found m/in_flight 4",
			"ratelimit.pool.quota.limit m/rpm/program 4", "ratelimit.pool.quota.used m/rpm/program 4", "ratelimit.pool.quota.utilization m/rpm/program 1",
			"ratelimit.pool.budget.limit m/day 2", "ratelimit.pool.budget.spent m/day 1", "ratelimit.pool.budget.spent m/month 1",
			"ratelimit.pool.queued_requests none 0", "ratelimit.pool.active_leases none 0",
			"ratelimit.store.degraded  0",
		}
		equal(t, samples(rl, holds), want)
		for most := 1; most <= len(want); most++ {
			calls := 0
			instruments.Gauges(rl, holds, func(*instruments.Sample) bool {
				calls++
				return calls < most
			})
			if calls != most {
				t.Errorf("%d samples, want %d", calls, most)
			}
		}
		time.Sleep(2 * time.Minute)
		runtime.KeepAlive(limited)
	})
}

func TestGaugesEnd(t *testing.T) {
	rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 4}, "b": {MaxRPM: 4}}})
	for want := 1; want <= 11; want++ {
		calls := 0
		instruments.Gauges(rl, own, func(*instruments.Sample) bool {
			calls++
			return calls < want
		})
		if calls != want {
			t.Errorf("%d samples, want %d", calls, want)
		}
	}
}

func BenchmarkGauges(b *testing.B) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 1000 {
		quotas[fmt.Sprint("model-", i)] = ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1000, MaxRPD: 100}
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{Quotas: quotas, FilePath: b.TempDir() + "/state.yaml"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		instruments.Gauges(rl, own, func(*instruments.Sample) bool { return true })
	}
}
