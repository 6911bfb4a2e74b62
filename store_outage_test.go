// Store: what a limiter does while its store is away.

package ratelimit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

var errDown = errors.New("made up")

// away has the store fail, and returns once the limiters know.
func away(fake *fakestore.Fake, all ...*ratelimit.RateLimiter) {
	fake.Fail(errDown)
	for _, rl := range all {
		for rl.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// back has the store work again, and returns once the limiters use it.
func back(fake *fakestore.Fake, all ...*ratelimit.RateLimiter) {
	fake.Fail(nil)
	for _, rl := range all {
		for rl.Err() != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// recovers has the store work again, and limiters use it at once.
func recovers(fake *fakestore.Fake, all ...*ratelimit.RateLimiter) {
	synctest.Wait() // a write under way may still have the store fail
	fake.Fail(nil)
	for _, rl := range all {
		for rl.Err() != nil {
			rl.Persist()
		}
	}
}

// threeOf returns limiters of a store, all of which know each other.
func threeOf(t *testing.T, fake *fakestore.Fake, cfg ratelimit.Config) (all []*ratelimit.RateLimiter) {
	t.Helper()
	for range 3 {
		all = append(all, overStore(t, fake, cfg))
	}
	return all
}

// pass returns how many of n requests pass.
func pass(rl *ratelimit.RateLimiter, n int) (passed int) {
	for range n {
		if r, _ := rl.Reserve("m", 1, 0); r != nil {
			r.Commit(1, 0)
			passed++
		}
	}
	return passed
}

// Limiters that are cut off together admit no more than the quota, from their first moment on, and
// neither do they when the store is back, whoever is first.
func TestStoreAwayKeepsTheQuota(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before time.Duration // that the limiters are open
		empty  bool          // it comes back empty
	}{
		{"young limiters", 0, false},
		{"old ones", time.Minute, false},
		{"an emptied store", time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				all := threeOf(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 90}}})
				time.Sleep(tt.before)
				away(fake, all...)
				sum := 0
				for i, rl := range all {
					n := pass(rl, 200)
					if n != 30 {
						t.Errorf("limiter %d passes %d by its share, want 30", i, n)
					}
					sum += n
				}
				if tt.empty {
					fake.Empty()
				}
				fake.Fail(nil)
				for range 10 {
					for _, rl := range all {
						sum += pass(rl, 20)
					}
					time.Sleep(200 * time.Millisecond)
				}
				if sum != 90 {
					t.Errorf("%d pass in a minute, want 90", sum)
				}
				for i, rl := range all {
					if s := rl.Stats("m"); s.RPM != 90 {
						t.Errorf("limiter %d counts %d, want 90", i, s.RPM)
					}
				}
				time.Sleep(2 * time.Minute)
				if n := pass(all[0], 200); n != 90 {
					t.Errorf("later %d pass, want 90", n)
				}
			})
		})
	}
}

// Meanwhile all ways to ask say the same, and why.
func TestStoreAwayDecidesByTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		all := threeOf(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 9, MaxTPM: 900}}})
		rl := all[0]
		away(fake, rl)
		for i := range 3 {
			if !rl.CanSend("m", 1) {
				t.Errorf("call %d may not be sent: %+v", i, rl.Decide("m", 1))
			}
			rl.RecordUsage("m", 1, 0)
		}
		_, d := rl.Reserve("m", 1, 0)
		for _, d := range []ratelimit.Decision{d, rl.Decide("m", 1), rl.DecideRequest(ratelimit.Request{Model: "m"})} {
			if d.Allowed || d.Code != ratelimit.DecisionRPMLimit || d.Never || d.RetryAfter <= 59*time.Second || d.RetryAfter > time.Minute+1 ||
				d.Model != "m" || d.Reason != "this process has used its share of the quota while the store is away" {
				t.Errorf("%+v", d)
			}
		}
		if rl.CanSend("m", 1) {
			t.Error("more than the share may be sent")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := rl.WaitForCapacity(ctx, "m", 1); err != nil {
			t.Error(err)
		}
		for i := range 3 { // WaitForCapacity has charged nothing
			r, err := rl.Acquire(ctx, "m", 100, 0)
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			r.Commit(100, 0)
		}
		if d := rl.Decide("m", 1); d.Allowed {
			t.Errorf("%+v", d)
		}
	})
}

// A share is no less exact for tokens, settlements and cancellations.
func TestStoreAwaySettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		all := threeOf(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 300, MaxInFlight: 6}}})
		rl := all[0]
		before := reserve(t, rl, "m", 30, 0)
		time.Sleep(time.Second)
		away(fake, rl)
		first := reserve(t, rl, "m", 60, 0)
		if r, d := rl.Reserve("m", 1, 0); r != nil || d.Code != ratelimit.DecisionInFlightLimit || d.RetryAfter != 0 {
			t.Errorf("a third slot of six in three shares: %+v", d)
		}
		first.Commit(10, 0)
		second := reserve(t, rl, "m", 80, 0) // 30 + 3·(10 + 80)
		before.Commit(30, 0)
		if r, d := rl.Reserve("m", 1, 0); r != nil || d.Code != ratelimit.DecisionTPMLimit {
			t.Errorf("%+v", d)
		}
		second.Cancel()
		third := reserve(t, rl, "m", 20, 0)
		back(fake, rl)
		third.Commit(25, 0)
		time.Sleep(time.Second) // what only reads may be a little older
		for i, rl := range all {
			if s := rl.Stats("m"); s.TPM != 65 || s.RPM != 3 || s.InFlight != 0 {
				t.Errorf("limiter %d counts %+v", i, s)
			}
		}
	})
}

// A process heeds a cooldown that it could not tell the others, who learn of it later.
func TestStoreAwayCools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		all := threeOf(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 90}}})
		away(fake, all...)
		all[0].CooldownFor("m", time.Minute, ratelimit.CauseRateLimited)
		if r, d := all[0].Reserve("m", 1, 0); r != nil || d.Code != ratelimit.DecisionCooldown || d.Cause != ratelimit.CauseRateLimited || d.RetryAfter != time.Minute {
			t.Errorf("%+v", d)
		}
		if r, d := all[1].Reserve("m", 1, 0); r == nil {
			t.Errorf("another process, which cannot know: %+v", d)
		}
		back(fake, all...)
		for i, rl := range all {
			if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionCooldown || d.RetryAfter < 50*time.Second {
				t.Errorf("limiter %d: %+v", i, d)
			}
		}
	})
}

// A store that answers and takes nothing is away, too, as one that is out of memory.
func TestStoreThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, full := fakestore.New(), new(atomic.Bool)
		fake.Before = func(int64) error {
			if full.Load() {
				return errors.New("out of memory")
			}
			return nil
		}
		all := threeOf(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 30}}})
		full.Store(true)
		sum := 0
		for range 5 {
			for _, rl := range all {
				began := time.Now()
				sum += pass(rl, 1)
				if took := time.Since(began); took > 300*time.Millisecond {
					t.Errorf("a call took %v", took)
				}
			}
			time.Sleep(time.Second)
		}
		for i, rl := range all {
			if sum += pass(rl, 50); rl.Err() == nil {
				t.Errorf("limiter %d says that all is well", i)
			}
		}
		if sum != 30 {
			t.Errorf("%d pass, want 30", sum)
		}
		full.Store(false)
		time.Sleep(5 * time.Second)
		for i, rl := range all {
			if err := rl.Err(); err != nil || rl.Stats("m").RPM != 30 {
				t.Errorf("limiter %d counts %d, %v", i, rl.Stats("m").RPM, err)
			}
		}
	})
}

// With FailClosed nothing is admitted, and those that wait go on waiting.
func TestStoreAwayFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{FailClosed: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 9}}})
		away(fake, rl)
		if _, d := rl.Reserve("m", 1, 0); d.Code != ratelimit.DecisionStoreError || d.Allowed || d.RetryAfter != 0 {
			t.Errorf("%+v", d)
		}
		if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionStoreError || rl.CanSend("m", 1) {
			t.Errorf("%+v", d)
		}
		served := make(chan error)
		began := time.Now()
		go func() {
			_, err := rl.Acquire(t.Context(), "m", 1, 0)
			served <- err
		}()
		time.Sleep(10 * time.Second)
		fake.Fail(nil)
		if err := <-served; err != nil || time.Since(began) < 10*time.Second || time.Since(began) > 12*time.Second {
			t.Errorf("served after %v: %v", time.Since(began), err)
		}
	})
}

// A context that ends is obeyed at once, also while the store answers nothing.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, hangs := fakestore.New(), make(chan struct{})
		var hanging atomic.Bool
		fake.Timeout = 3 * time.Second
		fake.Before = func(int64) error {
			if hanging.Load() {
				<-hangs
			}
			return nil
		}
		rl := overStore(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 9}}})
		hanging.Store(true)
		for _, call := range []struct {
			name string
			ask  func(context.Context) error
		}{
			{"Acquire", func(ctx context.Context) error { _, err := rl.Acquire(ctx, "m", 1, 0); return err }},
			{"AcquireAny", func(ctx context.Context) error {
				_, err := rl.AcquireAny(ctx, ratelimit.AnyOptions{}, ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "other"})
				return err
			}},
			// It reads what is behind the leaving of the others.
			{"WaitForCapacity", func(ctx context.Context) error { return rl.WaitForCapacity(ctx, "m", 1) }},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began := time.Now()
			if err := call.ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", call.name, err)
			}
			if took := time.Since(began); took > 150*time.Millisecond {
				t.Errorf("%s returned after %v", call.name, took)
			}
			cancel()
		}
		hanging.Store(false)
		close(hangs)
		time.Sleep(10 * time.Second)
		if s := rl.Stats("m"); s.RPM != 0 || s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("what nobody waits for is left: %+v", s)
		}
	})
}
