// Heads that wait for long: one that waits for a day, a month or a budget stops its class alone.

package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

// longHead is a limiter in which a call of 600 tokens waits for longer than a minute, and one of a
// token has room.
type longHead struct {
	name  string
	quota ratelimit.ModelQuota
	pool  ratelimit.ModelQuota
	head  []ratelimit.Request             // besides that for m
	begin func(rl *ratelimit.RateLimiter) // besides a use of 500 tokens
}

func longHeads() []longHead {
	dollars := money.Amount(1_000_000)
	return []longHead{
		{name: "tokens of the day", quota: ratelimit.ModelQuota{MaxTPD: 1000}},
		{name: "and of the minute", quota: ratelimit.ModelQuota{MaxTPD: 1000, MaxTPM: 800}},
		{name: "spend of the day", quota: ratelimit.ModelQuota{MaxSpendPerDay: 1000 * dollars}},
		{name: "spend of the month", quota: ratelimit.ModelQuota{MaxSpendPerMonth: 1000 * dollars}},
		{name: "a pool's day", pool: ratelimit.ModelQuota{MaxTPD: 1000}},
		{name: "a pool's budget", pool: ratelimit.ModelQuota{MaxSpendPerDay: 1000 * dollars}},
		{name: "another model's cooldown", quota: ratelimit.ModelQuota{MaxTPM: 10_000},
			head:  []ratelimit.Request{{Model: "n", PromptTokens: 1, Class: "large"}},
			begin: func(rl *ratelimit.RateLimiter) { rl.Cooldown("n", time.Now().Add(time.Hour)) }},
		{name: "the day, and a call in flight of another model", quota: ratelimit.ModelQuota{MaxTPD: 1000},
			head: []ratelimit.Request{{Model: "n", PromptTokens: 1, Class: "large"}},
			begin: func(rl *ratelimit.RateLimiter) {
				rl.SetQuota("n", ratelimit.ModelQuota{MaxInFlight: 1})
				rl.Reserve("n", 1, 0)
			}},
	}
}

func (l longHead) config() ratelimit.Config {
	cfg := ratelimit.Config{
		Classes: map[string]ratelimit.Class{"large": {}, "small": {}, "ahead": {Ahead: true}},
		Quotas:  map[string]ratelimit.ModelQuota{"m": l.quota, "n": {}},
		Prices:  map[string]money.Price{"m": {Input: 1_000_000 * 1_000_000}, "n": {}},
	}
	if l.pool != (ratelimit.ModelQuota{}) {
		cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: l.pool}}
	}
	return cfg
}

// smallPasses lets a head wait by one limiter, and expects calls of other classes to pass at once
// by another one.
func (l longHead) smallPasses(t *testing.T, first, second *ratelimit.RateLimiter, class string) {
	t.Helper()
	if l.begin != nil {
		l.begin(first)
	}
	first.RecordUsage("m", 500, 0)
	head := make(chan error, 1)
	go func() {
		_, err := first.AcquireAll(t.Context(), append([]ratelimit.Request{{Model: "m", PromptTokens: 600, Class: class}}, l.head...)...)
		head <- err
	}()
	synctest.Wait()
	time.Sleep(50 * time.Millisecond) // in which the other one hears of it
	if waiting := second.Stats("m").Waiting; waiting != 1 {
		t.Fatalf("%d wait for m, want the head", waiting)
	}
	small := ratelimit.Request{Model: "m", PromptTokens: 1, Class: "small"}
	if d := second.DecideRequest(small); !d.Allowed {
		t.Errorf("DecideRequest: %+v", d)
	}
	if rs, d := second.ReserveContext(t.Context(), small); !d.Allowed {
		t.Errorf("ReserveContext: %+v", d)
	} else {
		rs.Cancel()
	}
	if r, d := second.ReserveAny(small); !d.Allowed {
		t.Errorf("ReserveAny: %+v", d)
	} else {
		r.Cancel()
	}
	if r, d := second.Reserve("m", 1, 0); !d.Allowed { // of the class ""
		t.Errorf("Reserve: %+v", d)
	} else {
		r.Cancel()
	}
	came := time.Now()
	if r, err := second.Acquire(ratelimit.WithClass(t.Context(), "small"), "m", 1, 0); err != nil || time.Since(came) > 50*time.Millisecond {
		t.Errorf("Acquire: %v after %v", err, time.Since(came))
	} else {
		r.Cancel()
	}
	if r, err := second.AcquireAny(t.Context(), ratelimit.AnyOptions{}, small); err != nil || time.Since(came) > 50*time.Millisecond {
		t.Errorf("AcquireAny: %v after %v", err, time.Since(came))
	} else {
		r.Cancel()
	}
	if _, d := second.ReserveContext(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 1, Class: class}); d.Code != ratelimit.DecisionQueued {
		t.Errorf("a call of the head's class: %+v", d)
	}
	select {
	case err := <-head:
		t.Errorf("the head does not wait: %v", err)
	default:
	}
}

func TestFairHeadThatWaitsForLongStopsItsClassAlone(t *testing.T) {
	for _, l := range longHeads() {
		for _, class := range []string{"large", "ahead"} {
			t.Run(fmt.Sprintf("%s, class %s", l.name, class), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiterWith(t, l.config())
					l.smallPasses(t, rl, rl, class)
				})
			})
		}
	}
}

func TestFairHeadThatWaitsForLongStopsItsClassAloneOverProcesses(t *testing.T) {
	overFakes(t, len(longHeads()), func(t *testing.T, i int, fake *fakestore.Fake) {
		l := longHeads()[i]
		var limiters []*ratelimit.RateLimiter
		for range 2 {
			rl, _, err := ratelimit.NewOverFake(fake, l.config())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rl.Close() })
			limiters = append(limiters, rl)
		}
		l.smallPasses(t, limiters[0], limiters[1], "large")
	})
}

// A head that waits for room of the minute stops all classes, as before.
func TestFairHeadOfTheMinuteStopsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := longHead{quota: ratelimit.ModelQuota{MaxTPM: 1000}}
		h := newFairHall(t, l.config())
		h.rl.RecordUsage("m", 500, 0)
		h.come(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 600, Class: "large"})
		if _, d := h.rl.ReserveContext(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 1, Class: "small"}); d.Code != ratelimit.DecisionQueued {
			t.Errorf("ReserveContext: %+v", d)
		}
		if c := h.come(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 1, Class: "small"}); h.now(c).returned {
			t.Error("the small call overtakes the head")
		}
	})
}
