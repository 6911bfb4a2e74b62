// Classes: those of a context, their bounds, reserves, and several processes. Which of the calls
// that wait goes first is tested by the files fair_*_test.go.

package ratelimit_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// The class of the context counts where the request names none.
func TestClassOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
			Classes: map[string]ratelimit.Class{"one": {MaxQueue: 1}, "two": {MaxQueue: 2}},
		})
		first, _ := rl.Reserve("m", 1, 1)
		defer first.Cancel()
		ctx, cancel := context.WithCancel(ratelimit.WithFlow(ratelimit.WithClass(t.Context(), "one"), "f"))
		defer cancel()
		go rl.Acquire(ctx, "m", 1, 1)
		synctest.Wait()
		for _, wait := range []func() error{
			func() error { _, err := rl.Acquire(ctx, "m", 1, 1); return err },
			func() error { _, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "m"}); return err },
			func() error {
				_, err := rl.AcquireAll(t.Context(), ratelimit.Request{Model: "m", Class: "one"})
				return err
			},
			func() error { return rl.WaitForCapacity(ctx, "m", 1) },
		} {
			if err := wait(); !errors.Is(err, ratelimit.ErrQueueFull) {
				t.Errorf("%v, want a full queue", err)
			}
		}
		two, end := context.WithTimeout(ctx, time.Second)
		defer end()
		if _, err := rl.AcquireAll(two, ratelimit.Request{Model: "m", Class: "two"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a wait: it is of another class", err)
		}
		cancel()
		synctest.Wait()
	})
}

// What the class "" says holds for names of no class, too.
func TestMaxQueueOfNamesOfNoClass(t *testing.T) {
	onPairs(t, ratelimit.Config{
		Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
		Classes: map[string]ratelimit.Class{"": {MaxQueue: 2}, "other": {}},
	}, func(t *testing.T, rl, _ *ratelimit.RateLimiter, late time.Duration) {
		first, _ := rl.Reserve("m", 1, 1)
		defer first.Cancel()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		for _, class := range []string{"", "unknown"} {
			go rl.Acquire(ratelimit.WithClass(ctx, class), "m", 1, 1)
		}
		synctest.Wait()
		for _, class := range []string{"", "unknown", "another"} {
			if _, err := rl.Acquire(ratelimit.WithClass(ctx, class), "m", 1, 1); !errors.Is(err, ratelimit.ErrQueueFull) {
				t.Errorf("class %q: %v, want a full queue", class, err)
			}
		}
	})
}

func TestClassesOutOfRange(t *testing.T) {
	for want, classes := range map[string]map[string]ratelimit.Class{
		`class "a": field Weight is -1, want 0 to 1000000`:      {"a": {Weight: -1}},
		`class "a": field ReservePercent is 101, want 0 to 100`: {"a": {ReservePercent: 101}},
		`class "b": field MaxQueue is -5, want 0 or more`:       {"a": {}, "b": {MaxQueue: -5}},
		`fields ReservePercent add up to 110`:                   {"a": {ReservePercent: 60}, "b": {ReservePercent: 50}},
		`class "": field ReservePercent is 5`:                   {"": {ReservePercent: 5}},
		`class "\xff" has a name that is not UTF-8`:             {"\xff": {Weight: 1}},
		`class "a": field Weight is 2000000, want 0 to 1000000`: {"a": {Weight: 2_000_000}},
	} {
		if _, err := ratelimit.NewWithConfig(ratelimit.Config{Classes: classes}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func of(class string, tokens int) ratelimit.Request {
	return ratelimit.Request{Model: "m", Class: class, PromptTokens: tokens}
}

// admitted reserves until a request is denied, and returns how many passed.
func admitted(rl *ratelimit.RateLimiter, req ratelimit.Request, kept *[]*ratelimit.Reservation) (n int, d ratelimit.Decision) {
	for {
		r, d := rl.ReserveAny(req)
		if r == nil {
			return n, d
		}
		*kept = append(*kept, r)
		n++
	}
}

func TestReserveIsKeptForAnActiveClass(t *testing.T) {
	for limit, q := range map[string]ratelimit.ModelQuota{
		"requests":  {MaxRPM: 100},
		"tokens":    {MaxTPM: 1000},
		"in flight": {MaxInFlight: 100},
		"day":       {MaxRPD: 100, MaxTPD: 1000},
	} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"m": q},
					Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 30}, "also": {ReservePercent: 10}},
				})
				var kept []*ratelimit.Reservation
				defer func() {
					for _, r := range kept {
						r.Cancel()
					}
				}()
				r, _ := rl.ReserveAny(of("kept", 10))
				kept = append(kept, r)
				n, d := admitted(rl, of("", 10), &kept)
				if n != 70 || d.Never || d.RetryAfter <= 0 {
					t.Errorf("%d others passed, want 70 beside the reserve: %+v", n, d)
				}
				if !strings.HasSuffix(d.Reason, " that are left are kept for other classes") {
					t.Errorf("the reason is %q, want that of a reserve", d.Reason)
				}
				if rl.CanSend("m", 10) {
					t.Error("CanSend lets a call into the reserve")
				}
				if n, _ := admitted(rl, of("kept", 10), &kept); n != 29 {
					t.Errorf("%d of the class passed, want the rest of its reserve", n)
				}
			})
		})
	}
}

// TestReserveIsNotTheProvidersReport: what the provider reports denies in its own words, also while
// a reserve is kept.
func TestReserveIsNotTheProvidersReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}},
			Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 50}},
		})
		r, _ := rl.ReserveAny(of("kept", 1))
		r.Commit(1, 1)
		rl.Observe("m", ratelimit.ProviderLimits{
			RPM: ratelimit.ProviderLimit{Limit: 10, HasRemaining: true, Reset: 30 * time.Second},
		})
		if _, d := rl.ReserveAny(of("", 1)); d.Reason != "the provider reports fewer requests per minute left" {
			t.Errorf("the reason is %q, want the provider's report", d.Reason)
		}
	})
}

func TestReserveIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxInFlight: 10}},
			Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 50}},
		})
		var kept []*ratelimit.Reservation
		if n, _ := admitted(rl, of("other", 1), &kept); n != 10 {
			t.Errorf("%d passed, want all: the class was never active", n)
		}
		for _, r := range kept {
			r.Commit(1, 1)
		}
		time.Sleep(time.Minute + 1)
		// The class comes back, and has its reserve within a window.
		r, _ := rl.ReserveAny(of("kept", 1))
		r.Cancel()
		kept = nil
		n, d := admitted(rl, of("other", 1), &kept)
		if n != 5 {
			t.Errorf("%d passed beside the reserve", n)
		}
		got := make(chan time.Duration)
		go func() {
			began := time.Now()
			r, err := rl.Acquire(t.Context(), "m", 1, 1)
			if err != nil {
				t.Error(err)
			}
			r.Cancel()
			got <- time.Since(began)
		}()
		if waited := <-got; waited != d.RetryAfter || waited != time.Minute+1 {
			t.Errorf("waited %v, want %v: the class has not asked for a minute", waited, d.RetryAfter)
		}
		for _, r := range kept {
			r.Commit(1, 1)
		}
	})
}

// TestReserveIsExplained: Explain decides as Decide does, for a call without a class.
func TestReserveIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}},
			Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 50}},
		})
		r, _ := rl.ReserveAny(of("kept", 1))
		r.Commit(1, 1)
		for range 5 {
			rl.RecordUsage("m", 1, 1)
		}
		e, d := rl.Explain("m"), rl.Decide("m", 1)
		if d.Allowed || e.Next != d {
			t.Errorf("Explain has %+v, want %+v", e.Next, d)
		}
		if text := e.String(); !strings.Contains(text, "kept for other classes") || strings.Contains(text, "others of the account") {
			t.Errorf("the text is %s", text)
		}
	})
}

// Processes that share a store have one set of lines: classes have their shares of all that they do
// together.
func TestFairSharesOverProcesses(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		limiters := p.three(t, ratelimit.Config{
			Classes: map[string]ratelimit.Class{"a": {Weight: 3}, "b": {Weight: 1}},
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxTPM: 30_000, Burst: 5 * time.Second}},
		})
		a := fairLoad{class: "a", model: "m", callers: 30, smallest: 200, larger: 400, lasts: time.Second}
		b := fairLoad{class: "b", model: "m", callers: 30, smallest: 400, larger: 800, lasts: time.Second}
		tokens, _, _ := runLoads(t, limiters, 1, 2*time.Minute, a, b)
		if got := share(tokens, "a"); got < 0.72 || got > 0.78 || tokens["a"]+tokens["b"] < 57_000 {
			t.Errorf("weight 3 of 4 has %.4f of %v", got, tokens)
		}
	})
}

// A class ahead goes before those that wait in other processes.
func TestFairAheadOverProcesses(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		limiters := p.three(t, ratelimit.Config{
			Classes: map[string]ratelimit.Class{"ahead": {Ahead: true}},
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60, Burst: time.Second}},
		})
		halls := []*fairHall{{T: t, rl: limiters[0]}, {T: t, rl: limiters[1]}}
		for range 60 {
			limiters[2].RecordUsage("m", 1, 0)
		}
		time.Sleep(p.late)
		for range 20 {
			halls[0].come(t.Context(), ratelimit.Request{Model: "m"})
		}
		time.Sleep(p.late)
		ahead := halls[1].come(t.Context(), ratelimit.Request{Model: "m", Class: "ahead"})
		time.Sleep(p.late)
		if s := limiters[2].Stats("m"); s.Waiting != 21 {
			t.Errorf("%d wait", s.Waiting)
		}
		time.Sleep(10 * time.Minute)
		turns, first := halls[0].order(), halls[1].now(ahead)
		if len(turns) != 20 || first.real == nil || first.served.After(turns[0].served.Add(p.late)) {
			t.Errorf("the call ahead is served at %v, %d others from %v", first.served, len(turns), turns)
		}
		runtime.KeepAlive(halls)
	})
}

// The classes that one process says are those of all, also of one that comes later; the last word
// counts.
func TestFairClassesOfProcesses(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		if p.kind == alone {
			t.Skip("shares nothing")
		}
		first := map[string]ratelimit.Class{"a": {Weight: 3, ReservePercent: 10, MaxQueue: 7, Ahead: true}, "b": {}}
		cfg := ratelimit.Config{Classes: first, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60}}}
		limiters := p.three(t, cfg)
		reopen := func(i int, cfg ratelimit.Config) {
			limitertest.Close(t, limiters[i])
			limiters[i] = p.open(t, cfg)
		}
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
