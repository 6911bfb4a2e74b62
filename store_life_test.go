// Store: lives of limiters: they close, die, forget reservations, and learn of each other.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// twoOf returns two limiters of a new store.
func twoOf(t *testing.T, cfg ratelimit.Config) (fake *fakestore.Fake, a, b *ratelimit.RateLimiter) {
	t.Helper()
	return twoIdle(t, 0, cfg)
}

// twoIdle are two that ask three times in so long while nothing happens.
func twoIdle(t *testing.T, contact time.Duration, cfg ratelimit.Config) (fake *fakestore.Fake, a, b *ratelimit.RateLimiter) {
	t.Helper()
	fake = fakestore.New()
	fake.Contact = contact
	return fake, overStore(t, fake, cfg), overStore(t, fake, cfg)
}

func quotaOfM(q ratelimit.ModelQuota) ratelimit.Config {
	return ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q}}
}

// synced returns a limiter that knows what the others have done.
func synced(t *testing.T, rl *ratelimit.RateLimiter) *ratelimit.RateLimiter {
	t.Helper()
	if err := rl.Persist(); err != nil {
		t.Error(err)
	}
	return rl
}

// Close gives slots and places in line back at once. Afterwards everything is denied, nothing is
// recorded, and waiting ends.
func TestStoreClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		cfg := quotaOfM(ratelimit.ModelQuota{MaxInFlight: 1})
		a, b := overStore(t, fake, cfg), overStore(t, fake, cfg)
		held := reserve(t, a, "m", 1, 0)
		first, second := make(chan error), make(chan error)
		go func() { _, err := a.Acquire(t.Context(), "m", 1, 0); first <- err }()
		time.Sleep(time.Second)
		go func() { _, err := b.Acquire(t.Context(), "m", 1, 0); second <- err }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-first; !errors.Is(err, ratelimit.ErrClosed) {
			t.Errorf("a waiter of the closed limiter: %v", err)
		}
		if err := <-second; err != nil || time.Since(began) > sharedHandOver {
			t.Errorf("the next is served after %v, %v", time.Since(began), err)
		}
		held.Commit(100, 0)
		a.RecordUsage("m", 1, 0)
		if _, d := a.Reserve("m", 1, 0); d.Code != ratelimit.DecisionClosed || !d.Never {
			t.Errorf("%+v", d)
		}
		if d := a.Decide("m", 1); d.Code != ratelimit.DecisionClosed || a.CanSend("m", 1) {
			t.Errorf("%+v", d)
		}
		if _, err := a.Acquire(t.Context(), "m", 1, 0); !errors.Is(err, ratelimit.ErrClosed) {
			t.Error(err)
		}
		if err := a.Persist(); !errors.Is(err, ratelimit.ErrClosed) {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if s := synced(t, b).Stats("m"); s.RPM != 2 || s.TPM != 2 || s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// What a dead limiter had in flight is free within its lease; its charges stay, and its places in
// line keep nobody waiting.
func TestStoreLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		cfg := quotaOfM(ratelimit.ModelQuota{MaxInFlight: 2})
		cfg.LeaseTTL = 5 * time.Second
		dead, process, err := ratelimit.NewOverFake(fake, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer dead.Close()
		b := overStore(t, fake, cfg)
		reserve(t, dead, "m", 10, 0)
		reserve(t, dead, "m", 10, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go dead.Acquire(ctx, "m", 1, 0)
		time.Sleep(time.Second)
		fake.Kill(process)
		began := time.Now()
		for range 2 {
			if _, err := b.Acquire(t.Context(), "m", 1, 0); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took < time.Second || took > 7*time.Second {
			t.Errorf("its slots are free after %v", took)
		}
		if s := b.Stats("m"); s.RPM != 4 || s.InFlight != 2 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		cancel()
	})
}

// A limiter that holds slots keeps them for as long as it lives, however long its lease is, and
// however long it says nothing else.
func TestStoreHoldsItsSlots(t *testing.T) {
	for ttl, silent := range map[time.Duration]time.Duration{
		time.Millisecond: 10 * time.Minute, 10 * time.Second: 10 * time.Minute, 5 * time.Hour: time.Hour, 1000 * time.Hour: time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := quotaOfM(ratelimit.ModelQuota{MaxInFlight: 1})
			cfg.LeaseTTL = ttl
			_, a, b := twoOf(t, cfg)
			held := reserve(t, a, "m", 1, 0)
			time.Sleep(silent)
			if _, d := b.Reserve("m", 1, 0); d.Code != ratelimit.DecisionInFlightLimit {
				t.Errorf("lease %v: %+v", ttl, d)
			}
			held.Commit(1, 0)
			reserve(t, b, "m", 1, 0).Commit(1, 0)
		})
	}
}

// A reservation that nobody settles ends after HoldTTL, is told to its own limiter, and its slot is
// free for the others.
func TestStoreHoldTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, w, others := fakestore.New(), witnessOf(t), witnessOf(t)
		cfg := quotaOfM(ratelimit.ModelQuota{MaxInFlight: 1})
		cfg.HoldTTL, cfg.Events = 30*time.Second, w
		a := overStore(t, fake, cfg)
		cfg.Events = others
		b := overStore(t, fake, cfg)
		r := reserve(t, a, "m", 3, 4)
		began := time.Now()
		other, err := b.Acquire(t.Context(), "m", 1, 0)
		if took := time.Since(began); err != nil || took < 30*time.Second-time.Millisecond || took > 30*time.Second+2*sharedHandOver {
			t.Errorf("the slot is free after %v, %v", took, err)
		}
		other.Commit(1, 0)
		time.Sleep(time.Second)
		r.Commit(100, 100)
		synctest.Wait()
		if s := synced(t, a).Stats("m"); s.TPM != 8 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
		if n := w.count(ratelimit.EventExpired); n != 1 {
			t.Errorf("its limiter is told %d times that it has expired", n)
		}
		if n := others.count(ratelimit.EventExpired); n != 0 {
			t.Errorf("another limiter is told %d times", n)
		}
		w.wantOpen(0)
		others.wantOpen(0)
	})
}

// What one limiter says of quotas, pools and classes, and that it resets a model, holds for all;
// the last one counts. A newcomer that names none takes those of the others.
func TestStoreSayings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, a, b := twoOf(t, quotaOfM(ratelimit.ModelQuota{MaxRPM: 5}))
		a.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		b.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 8, MaxTPM: 100})
		a.SetPool("p", ratelimit.Pool{Models: []string{"m", "n"}, Quota: ratelimit.ModelQuota{MaxRPM: 9}})
		b.SetClasses(map[string]ratelimit.Class{"c": {Weight: 3}})
		b.RecordUsage("m", 30, 0)
		newcomer := overStore(t, fake, ratelimit.Config{})
		all := []*ratelimit.RateLimiter{a, b, newcomer}
		for i, rl := range all {
			synced(t, rl)
			if _, q, ok := rl.QuotaFor("m"); !ok || q.MaxRPM != 8 || q.MaxTPM != 100 {
				t.Errorf("limiter %d has the quota %+v", i, q)
			}
			if p, ok := rl.Pool("p"); !ok || p.Quota.MaxRPM != 9 || len(p.Models) != 2 {
				t.Errorf("limiter %d has the pool %+v", i, p)
			}
			if c := rl.Classes(); len(c) != 1 || c["c"].Weight != 3 {
				t.Errorf("limiter %d has the classes %+v", i, c)
			}
			if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 30 {
				t.Errorf("limiter %d counts %+v", i, s)
			}
			if shown := rl.State["m"]; shown == nil || len(shown.Requests) != 1 || len(shown.Tokens) != 1 || shown.DayCount != 1 {
				t.Errorf("limiter %d shows %+v", i, shown)
			}
			if q := rl.Quotas["m"]; q.MaxRPM != 8 {
				t.Errorf("limiter %d shows the quota %+v", i, q)
			}
		}
		newcomer.Reset("m")
		a.RemoveQuota("m")
		b.RemovePool("p")
		for i, rl := range all {
			synced(t, rl)
			if _, _, ok := rl.QuotaFor("m"); ok {
				t.Errorf("limiter %d still has the quota", i)
			}
			if _, ok := rl.Pool("p"); ok {
				t.Errorf("limiter %d still has the pool", i)
			}
			if s := rl.Stats("m"); s.RPM != 0 || s.RPD != 0 {
				t.Errorf("limiter %d counts %+v", i, s)
			}
		}
	})
}

// The line is one: first come, first served, whoever asked whom; MaxQueue bounds it over all.
func TestStoreLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quotaOfM(ratelimit.ModelQuota{MaxInFlight: 1})
		cfg.MaxQueue = 6
		_, a, b := twoOf(t, cfg)
		held := reserve(t, a, "m", 1, 0)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for i := range 6 {
			rl := []*ratelimit.RateLimiter{a, b}[i%2]
			all.Go(func() {
				r, err := rl.Acquire(t.Context(), "m", 1, 0)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, fmt.Sprint(i))
				mu.Unlock()
				time.Sleep(time.Second)
				r.Commit(1, 0)
			})
			time.Sleep(100 * time.Millisecond)
		}
		if _, err := b.Acquire(t.Context(), "m", 1, 0); !errors.Is(err, ratelimit.ErrQueueFull) {
			t.Errorf("a seventh waiter: %v", err)
		}
		if d := synced(t, b).Decide("m", 1); d.Code != ratelimit.DecisionQueued || d.Stats.Waiting != 6 {
			t.Errorf("%+v", d)
		}
		held.Commit(1, 0)
		all.Wait()
		if got := strings.Join(order, " "); got != "0 1 2 3 4 5" {
			t.Errorf("served in the order %s", got)
		}
	})
}

// The flows of a class take turns over all limiters, as in one.
func TestStoreFlows(t *testing.T) {
	orders := make(map[string]string)
	for _, kind := range []string{"private", "shared"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := quotaOfM(ratelimit.ModelQuota{MaxInFlight: 1})
			cfg.Classes = map[string]ratelimit.Class{"hot": {Weight: 3}, "cold": {Weight: 1}}
			var rls []*ratelimit.RateLimiter
			if kind == "private" {
				rl := newLimiterWith(t, cfg)
				rls = append(rls, rl, rl)
			} else {
				_, a, b := twoOf(t, cfg)
				rls = append(rls, a, b)
			}
			held := reserve(t, rls[0], "m", 1, 0)
			var mu sync.Mutex
			var order []string
			var all sync.WaitGroup
			for i := range 12 {
				req := ratelimit.Request{Model: "m", PromptTokens: 10, Class: []string{"hot", "cold"}[i/2%2], Flow: fmt.Sprint(i % 3)}
				all.Go(func() {
					rs, err := rls[i%2].AcquireAll(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, fmt.Sprint(i))
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					rs.Cancel()
				})
				time.Sleep(100 * time.Millisecond)
			}
			held.Commit(1, 0)
			all.Wait()
			orders[kind] = strings.Join(order, " ")
		})
	}
	if orders["private"] != orders["shared"] {
		t.Errorf("alone %s, shared %s", orders["private"], orders["shared"])
	}
}

// endsWhenServed is a context that ends in the moment in which its waiter is served.
type endsWhenServed struct {
	context.Context
	rl *ratelimit.RateLimiter
}

func (c endsWhenServed) Err() error {
	if c.rl.Stats("m").InFlight > 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A waiter whose context ends as it is served gives back what it got, and keeps no slot.
func TestStoreServedWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoOf(t, quotaOfM(ratelimit.ModelQuota{MaxInFlight: 2}))
		ctx := endsWhenServed{t.Context(), a}
		if rs, err := a.AcquireAll(ctx, ratelimit.Request{Model: "m", PromptTokens: 1}, ratelimit.Request{Model: "m"}); rs != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, %v", rs, err)
		}
		time.Sleep(time.Second)
		for i, rl := range []*ratelimit.RateLimiter{a, b} {
			if s := synced(t, rl).Stats("m"); s.InFlight != 0 || s.RPM != 0 {
				t.Errorf("limiter %d: %+v", i, s)
			}
		}
	})
}
