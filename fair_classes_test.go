// Classes: which of the calls that wait goes first, against what weighted fair queueing says.

package ratelimit_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// fairCall is a call that waits, or did.
type fairCall struct {
	req      ratelimit.Request
	n        int // in the order of the arrivals
	came     time.Time
	served   time.Time // zero while it waits
	real     *ratelimit.Reservation
	err      error
	returned bool
}

// fairHall is where calls wait, and are told apart.
type fairHall struct {
	*testing.T
	rl    *ratelimit.RateLimiter
	mu    sync.Mutex
	calls []*fairCall
	turns []*fairCall
}

func newFairHall(t *testing.T, cfg ratelimit.Config) *fairHall {
	h := &fairHall{T: t, rl: newLimiterWith(t, cfg)}
	t.Cleanup(func() { runtime.KeepAlive(h.calls) })
	return h
}

// come has a call wait in a goroutine of its own, and returns when it stands in line or is served.
func (h *fairHall) come(ctx context.Context, req ratelimit.Request) *fairCall {
	c := &fairCall{req: req, n: len(h.calls), came: time.Now()}
	h.calls = append(h.calls, c)
	go func() {
		rs, err := h.rl.AcquireAll(ctx, req)
		h.mu.Lock()
		defer h.mu.Unlock()
		if c.err, c.returned = err, true; err == nil {
			c.real, c.served = rs[0], time.Now()
			h.turns = append(h.turns, c)
		}
	}()
	synctest.Wait()
	return c
}

// now returns what has become of a call.
func (h *fairHall) now(c *fairCall) fairCall {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return *c
}

// order returns the calls in the order of their service. Those that were served at one instant are
// told apart by the order in which the limiter charged them, as far as ReservedAt tells; the rest
// may be in any order, and is by arrival.
func (h *fairHall) order() []*fairCall {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	turns := slices.Clone(h.turns)
	slices.SortStableFunc(turns, func(a, b *fairCall) int {
		return cmp.Or(a.served.Compare(b.served), cmp.Compare(a.n, b.n))
	})
	return turns
}

// fairLoad has so many goroutines of a class make calls without end.
type fairLoad struct {
	class, model     string
	callers          int
	smallest, larger int           // tokens of a call
	lasts            time.Duration // a call, at most
	from, until      time.Duration // when it calls; zero until is for ever
}

// runLoads has loads call for so long, each caller one of the limiters, and returns what each class
// was admitted after the first minute.
func runLoads(t *testing.T, limiters []*ratelimit.RateLimiter, seed uint64, d time.Duration, loads ...fairLoad) (tokens, calls map[string]int, longest map[string]time.Duration) {
	tokens, calls, longest = make(map[string]int), make(map[string]int), make(map[string]time.Duration)
	ctx, cancel := context.WithCancel(t.Context())
	begin := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, load := range loads {
		for caller := range load.callers {
			random, rl := rand.New(rand.NewPCG(seed, uint64(i*1000+caller))), limiters[caller%len(limiters)]
			all.Go(func() {
				time.Sleep(load.from)
				for ctx.Err() == nil && (load.until == 0 || time.Since(begin) < load.until) {
					size := load.smallest + random.IntN(load.larger+1)
					came := time.Now()
					rs, err := rl.AcquireAll(ctx, ratelimit.Request{Model: load.model, PromptTokens: size, Class: load.class})
					if err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					if time.Since(begin) > time.Minute {
						tokens[load.class] += size
						calls[load.class]++
						longest[load.class] = max(longest[load.class], time.Since(came))
					}
					mu.Unlock()
					time.Sleep(time.Duration(random.Int64N(int64(load.lasts) + 1)))
					rs[0].Commit(size, 0)
				}
			})
		}
	}
	time.Sleep(d + time.Minute)
	cancel()
	all.Wait()
	return tokens, calls, longest
}

func share(of map[string]int, class string) float64 {
	sum := 0
	for _, n := range of {
		sum += n
	}
	return float64(of[class]) / float64(max(sum, 1))
}

// Classes of weight 3 and 1 whose calls differ in size have their shares of what is scarce to 2 %
// in ten minutes.
func TestFairClassesHaveTheirShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		quota    ratelimit.ModelQuota
		requests bool
		a, b     fairLoad
	}{
		{"tokens", ratelimit.ModelQuota{MaxTPM: 20_000}, false,
			fairLoad{callers: 300, smallest: 50, larger: 100}, fairLoad{callers: 40, smallest: 200, larger: 600}},
		{"large calls of the heavier", ratelimit.ModelQuota{MaxTPM: 20_000}, false,
			fairLoad{callers: 60, smallest: 200, larger: 600}, fairLoad{callers: 300, smallest: 10, larger: 50}},
		{"requests", ratelimit.ModelQuota{MaxRPM: 300, MaxTPM: 9_000_000}, true,
			fairLoad{callers: 400, smallest: 10, larger: 100}, fairLoad{callers: 200, smallest: 500, larger: 1000}},
		{"a burst", ratelimit.ModelQuota{MaxRPM: 300, Burst: 10 * time.Second}, true,
			fairLoad{callers: 60, smallest: 10, larger: 100}, fairLoad{callers: 60, smallest: 500, larger: 1000}},
		{"calls in flight", ratelimit.ModelQuota{MaxInFlight: 5}, true,
			fairLoad{callers: 30, smallest: 10, larger: 100}, fairLoad{callers: 60, smallest: 10, larger: 1000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{
					Classes: map[string]ratelimit.Class{"a": {Weight: 3}, "b": {Weight: 1}},
					Quotas:  map[string]ratelimit.ModelQuota{"m": tt.quota},
				})
				tt.a.class, tt.b.class, tt.a.model, tt.b.model = "a", "b", "m", "m"
				tt.a.lasts, tt.b.lasts = 2*time.Second, 2*time.Second
				tokens, calls, _ := runLoads(t, []*ratelimit.RateLimiter{rl}, 1, 10*time.Minute, tt.a, tt.b)
				got := share(tokens, "a")
				if tt.requests {
					got = share(calls, "a")
				}
				if got < 0.75*0.98 || got > 0.75*1.02 {
					t.Errorf("weight 3 of 4 has %.4f of what is scarce: tokens %v, calls %v", got, tokens, calls)
				}
			})
		})
	}
}

// A class that calls alone has everything, whatever the others would have if they called, and had.
func TestFairLoneClassHasEverything(t *testing.T) {
	t.Parallel()
	classes := map[string]ratelimit.Class{"low": {Weight: 1}, "high": {Weight: 99, ReservePercent: 40}, "ahead": {Ahead: true, ReservePercent: 20}}
	for _, class := range []string{"low", "high", "ahead", ""} {
		t.Run(class, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Classes: classes, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 20_000}}})
				for other := range classes { // they were active, long ago
					rs, _ := rl.ReserveAll(ratelimit.Request{Model: "m", PromptTokens: 1, Class: other})
					rs[0].Commit(1, 0)
				}
				time.Sleep(2*time.Minute + 1)
				load := fairLoad{class: class, model: "m", callers: 20, smallest: 20, larger: 60}
				tokens, _, _ := runLoads(t, []*ratelimit.RateLimiter{rl}, 1, 10*time.Minute, load)
				if got := tokens[class]; got < 198_000 {
					t.Errorf("%d tokens of 200,000 in ten minutes", got)
				}
			})
		})
	}
}

// A class that comes back finds its reserve within a window, and then all the time: what it asks
// within its reserve never waits.
func TestFairReturningClassHasItsReserve(t *testing.T) {
	t.Parallel()
	for _, quota := range []ratelimit.ModelQuota{{MaxRPM: 100}, {MaxTPM: 10_000}, {MaxRPM: 100, MaxTPM: 10_000}} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{
				Classes: map[string]ratelimit.Class{"person": {ReservePercent: 20}, "batch": {Weight: 10}},
				Quotas:  map[string]ratelimit.ModelQuota{"m": quota},
			})
			ctx, cancel := context.WithCancel(t.Context())
			var batch sync.WaitGroup
			for range 40 {
				batch.Go(func() {
					for {
						rs, err := rl.AcquireAll(ratelimit.WithClass(ctx, "batch"), ratelimit.Request{Model: "m", PromptTokens: 100})
						if err != nil {
							return
						}
						time.Sleep(time.Second)
						rs[0].Commit(100, 0)
					}
				})
			}
			time.Sleep(5*time.Minute + 17*time.Second)
			ask := func() time.Duration {
				came := time.Now()
				r, err := rl.Acquire(ratelimit.WithClass(t.Context(), "person"), "m", 100, 0)
				if err != nil {
					t.Fatal(err)
				}
				r.Commit(100, 0)
				return time.Since(came)
			}
			returned := time.Now()
			if wait := ask(); wait > time.Minute+1 {
				t.Errorf("%+v: the first call waits for %v", quota, wait)
			}
			time.Sleep(time.Until(returned.Add(time.Minute + 1)))
			for minute := range 3 {
				for call := range 18 { // of 20, of which the first and the last may be two
					if wait := ask(); wait > 0 {
						t.Errorf("%+v: minute %d: call %d waits for %v", quota, minute, call, wait)
					}
				}
				time.Sleep(30 * time.Second)
				if wait := ask(); wait > 0 {
					t.Errorf("%+v: minute %d: the last call waits for %v", quota, minute, wait)
				}
				time.Sleep(30*time.Second + 1)
			}
			cancel()
			batch.Wait()
		})
	}
}

// A class ahead goes before all others, but for every tenth service: so the n-th that waits behind
// it waits for nine services of it for each of the n, and for those of the others before it.
func TestFairAheadWithAging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Classes: map[string]ratelimit.Class{"ahead": {Ahead: true}, "low": {Weight: 100}},
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60, Burst: time.Second}}, // one a second
		})
		var mu sync.Mutex
		var served []time.Time
		low := func() {
			came, before := time.Now(), rl.Stats("m").Waiting-88 // of the others, and one that comes with it
			r, err := rl.Acquire(ratelimit.WithClass(t.Context(), "low"), "m", 1, 0)
			if err != nil {
				t.Error(err)
			}
			r.Commit(1, 0)
			mu.Lock()
			defer mu.Unlock()
			served = append(served, time.Now())
			if bound := 10*time.Second*time.Duration(max(before, 0)+2) + time.Second; time.Since(came) > bound { // a charge counts a nanosecond longer
				t.Errorf("a call behind %d others waits for %v", before, time.Since(came))
			}
		}
		var others sync.WaitGroup
		others.Go(func() {
			time.Sleep(20 * time.Second)
			for range 10 {
				others.Go(low)
				others.Go(low)
				time.Sleep(10 * time.Second)
			}
		})
		_, calls, longest := runLoads(t, []*ratelimit.RateLimiter{rl}, 1, 15*time.Minute, fairLoad{class: "ahead", model: "m", callers: 90})
		others.Wait()
		slices.SortFunc(served, time.Time.Compare)
		for i := 1; i < len(served); i++ {
			if gap := served[i].Sub(served[i-1]); gap < 10*time.Second-time.Millisecond {
				t.Errorf("two of the others pass within %v", gap)
			}
		}
		if len(served) != 20 || calls["ahead"] < 15*60-21 {
			t.Errorf("%d others are served, ahead has %v calls, waits of at most %v", len(served), calls, longest)
		}
	})
}

// MaxQueue of a class bounds its waiters for a model, and nobody else's.
func TestFairClassMaxQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFairHall(t, ratelimit.Config{
			MaxQueue: 5,
			Classes:  map[string]ratelimit.Class{"few": {MaxQueue: 2}, "many": {}},
			Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "n": {MaxRPM: 1}},
		})
		h.rl.RecordUsage("m", 1, 0)
		h.rl.RecordUsage("n", 1, 0)
		full := func(call *fairCall, want bool) {
			t.Helper()
			c := h.now(call)
			if is := c.returned && errors.Is(c.err, ratelimit.ErrQueueFull); is != want {
				t.Errorf("a call of %+v: returned %v with %v, want it refused: %v", c.req, c.returned, c.err, want)
			}
		}
		few, many := ratelimit.Request{Model: "m", Class: "few"}, ratelimit.Request{Model: "m", Class: "many"}
		full(h.come(t.Context(), few), false)
		full(h.come(t.Context(), few), false)
		full(h.come(t.Context(), few), true)
		full(h.come(ratelimit.WithClass(t.Context(), "few"), ratelimit.Request{Model: "m"}), true)
		full(h.come(t.Context(), ratelimit.Request{Model: "n", Class: "few"}), false)
		ctx, leave := context.WithCancel(t.Context())
		full(h.come(ctx, many), false)
		full(h.come(t.Context(), ratelimit.Request{Model: "m"}), false)
		full(h.come(t.Context(), many), false)
		full(h.come(t.Context(), many), true) // five wait in all
		leave()
		synctest.Wait()
		full(h.come(t.Context(), few), true)
		full(h.come(t.Context(), many), false)
		time.Sleep(10 * time.Minute)
		if got := len(h.order()); got != 6 {
			t.Errorf("%d calls were served, want 6", got)
		}
	})
}
