// Classes over several limiters of one store: one set of lines, and one set of classes.

package ratelimit_test

import (
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// openThree opens three limiters of a store: of a file, or of a log in memory.
func openThree(t *testing.T, overFile bool, cfg ratelimit.Config) (limiters []*ratelimit.RateLimiter, reopen func(i int, cfg ratelimit.Config)) {
	t.Helper()
	fake, path := sharedlogtest.NewFake(), filepath.Join(t.TempDir(), "state.db")
	open := func(cfg ratelimit.Config) *ratelimit.RateLimiter {
		var rl *ratelimit.RateLimiter
		var err error
		if cfg.LeaseTTL = time.Hour; overFile {
			cfg.Shared = true
			rl, err = ratelimit.NewWithSQLiteConfig(path, cfg)
		} else {
			rl, _, err = ratelimit.NewOverFake(fake, cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
		return rl
	}
	for range 3 {
		limiters = append(limiters, open(cfg))
	}
	t.Cleanup(func() {
		for _, rl := range limiters {
			limitertest.Close(t, rl)
		}
	})
	return limiters, func(i int, cfg ratelimit.Config) {
		limitertest.Close(t, limiters[i])
		limiters[i] = open(cfg)
	}
}

// overBoth runs a test in a bubble over a log in memory and over a file.
func overBoth(t *testing.T, run func(t *testing.T, overFile bool)) {
	t.Parallel()
	t.Run("log", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { run(t, false) }) })
	t.Run("file", func(t *testing.T) {
		needSQLite(t)
		synctest.Test(t, func(t *testing.T) { run(t, true) })
	})
}

// Processes that share a store have one set of lines: classes have their shares of all that they do
// together.
func TestFairSharesOverProcesses(t *testing.T) {
	overBoth(t, func(t *testing.T, overFile bool) {
		if overFile && racetest.Factor > 1 {
			t.Skip("the race detector sees the log alone, which takes a tenth of the time")
		}
		limiters, _ := openThree(t, overFile, ratelimit.Config{
			Classes: map[string]ratelimit.Class{"a": {Weight: 3}, "b": {Weight: 1}},
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxTPM: 30_000, Burst: 5 * time.Second}},
		})
		a := fairLoad{class: "a", model: "m", callers: 30, smallest: 200, larger: 400, lasts: time.Second}
		b := fairLoad{class: "b", model: "m", callers: 30, smallest: 400, larger: 800, lasts: time.Second}
		tokens, _, _ := runLoadsOn(t, limiters, 1, 2*time.Minute, a, b)
		if got := share(tokens, "a"); got < 0.72 || got > 0.78 || tokens["a"]+tokens["b"] < 57_000 {
			t.Errorf("weight 3 of 4 has %.4f of %v", got, tokens)
		}
	})
}

// A class ahead goes before those that wait in other processes.
func TestFairAheadOverProcesses(t *testing.T) {
	overBoth(t, func(t *testing.T, overFile bool) {
		limiters, _ := openThree(t, overFile, ratelimit.Config{
			Classes: map[string]ratelimit.Class{"ahead": {Ahead: true}},
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60, Burst: time.Second}},
		})
		halls := []*fairHall{{T: t, rl: limiters[0]}, {T: t, rl: limiters[1]}}
		for range 60 {
			limiters[2].RecordUsage("m", 1, 0)
		}
		for range 20 {
			halls[0].come(t.Context(), ratelimit.Request{Model: "m"})
		}
		time.Sleep(sharedHandOver)
		ahead := halls[1].come(t.Context(), ratelimit.Request{Model: "m", Class: "ahead"})
		if s := limiters[2].Stats("m"); s.Waiting != 21 {
			t.Errorf("%d wait", s.Waiting)
		}
		time.Sleep(10 * time.Minute)
		turns, first := halls[0].order(), halls[1].now(ahead)
		if len(turns) != 20 || first.real == nil || !first.served.Before(turns[0].served.Add(sharedHandOver)) {
			t.Errorf("the call ahead is served at %v, %d others from %v", first.served, len(turns), turns)
		}
	})
}

// The classes that one process says are those of all, also of one that comes later; the last word
// counts.
func TestFairClassesOfProcesses(t *testing.T) {
	overBoth(t, func(t *testing.T, overFile bool) {
		first := map[string]ratelimit.Class{"a": {Weight: 3, ReservePercent: 10, MaxQueue: 7, Ahead: true}, "b": {}}
		cfg := ratelimit.Config{Classes: first, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60}}}
		limiters, reopen := openThree(t, overFile, cfg)
		agree := func(want map[string]ratelimit.Class) {
			t.Helper()
			for i, rl := range limiters {
				if err := rl.Persist(); err != nil {
					t.Error(err)
				}
				if got := rl.Classes(); !maps.Equal(got, want) {
					t.Errorf("limiter %d has %v, want %v", i, got, want)
				}
			}
		}
		agree(first)
		second := map[string]ratelimit.Class{"c": {Weight: 1_000_000}}
		limiters[1].SetClasses(second)
		agree(second)
		limiters[2].SetClasses(map[string]ratelimit.Class{"c": {Weight: -1}}) // changes nothing
		agree(second)
		cfg.Classes = nil
		reopen(0, cfg)
		agree(second)
		third := map[string]ratelimit.Class{"": {Weight: 2}, "d": {ReservePercent: 100}}
		cfg.Classes = third
		reopen(2, cfg)
		agree(third)
		limiters[0].SetClasses(nil)
		agree(map[string]ratelimit.Class{})
		reopen(1, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
		agree(map[string]ratelimit.Class{})
	})
}
