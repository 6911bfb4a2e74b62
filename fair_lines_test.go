// Lines: who may pass whom, in the line of a model and in those of its pools, and in which turns.

package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// A call that waits because its own model denies does not hold up the other models of its pool.
func TestFairWaiterOfModelDoesNotHoldUpItsPool(t *testing.T) {
	for _, tt := range []struct {
		name string
		bar  func(rl *ratelimit.RateLimiter) // what keeps model a from admitting anything for 30 s
	}{
		{"cooldown", func(rl *ratelimit.RateLimiter) { rl.Cooldown("a", time.Now().Add(30*time.Second)) }},
		{"calls in flight", func(rl *ratelimit.RateLimiter) {
			r, _ := rl.Reserve("a", 1, 0)
			time.AfterFunc(30*time.Second, func() { r.Commit(1, 0) })
		}},
		{"tokens", func(rl *ratelimit.RateLimiter) {
			r, _ := rl.Reserve("a", 100, 0)
			time.AfterFunc(30*time.Second, r.Cancel)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFairHall(t, ratelimit.Config{
					Quotas: map[string]ratelimit.ModelQuota{"a": {MaxInFlight: 1, MaxTPM: 100}, "b": {}},
					Pools:  map[string]ratelimit.Pool{"both": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 300, MaxInFlight: 10}}},
				})
				tt.bar(h.rl)
				first := h.come(t.Context(), ratelimit.Request{Model: "a", PromptTokens: 60})
				second := h.come(t.Context(), ratelimit.Request{Model: "a", PromptTokens: 10})
				if other := h.come(t.Context(), ratelimit.Request{Model: "b", PromptTokens: 50}); h.now(other).real == nil {
					t.Error("a call of b waits behind one of a, whose own limit denies")
				}
				if r, d := h.rl.Reserve("b", 10, 0); !d.Allowed {
					t.Errorf("Reserve of b: %+v", d)
				} else {
					r.Commit(10, 0)
				}
				if c := h.now(first); c.returned {
					t.Errorf("a call of a does not wait: %v", c.err)
				}
				time.Sleep(30 * time.Second)
				served := h.now(first)
				if served.real == nil || served.served.Sub(served.came) != 30*time.Second {
					t.Errorf("the first of a was served at %v", served.served)
				}
				if h.now(second).real != nil {
					t.Error("a has one slot, and the second call is served")
				}
				served.real.Commit(60, 0)
				if h.now(second).real == nil {
					t.Error("the second of a still waits")
				}
			})
		})
	}
}

// A call that waits for the pool keeps its place there: a smaller one of another model does not
// jump the queue.
func TestFairPoolLineIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFairHall(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"a": {MaxTPM: 1000}, "b": {MaxTPM: 1000}, "c": {}},
			Pools:  map[string]ratelimit.Pool{"both": {Models: []string{"a", "b"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}}},
		})
		for range 10 {
			h.rl.RecordUsage("b", 9, 0)
			time.Sleep(2 * time.Second)
		}
		large := h.come(t.Context(), ratelimit.Request{Model: "a", PromptTokens: 90})
		small := h.come(t.Context(), ratelimit.Request{Model: "b", PromptTokens: 20})
		if c := h.come(t.Context(), ratelimit.Request{Model: "c", PromptTokens: 5}); h.now(c).real == nil {
			t.Error("a model outside of the pool waits")
		}
		if _, d := h.rl.Reserve("b", 5, 0); d.Code != ratelimit.DecisionQueued {
			t.Errorf("Reserve jumps the queue of the pool: %+v", d)
		}
		if d := h.rl.Decide("b", 5); d.Code != ratelimit.DecisionQueued {
			t.Errorf("Decide jumps the queue of the pool: %+v", d)
		}
		time.Sleep(10 * time.Minute)
		if a, b := h.now(large), h.now(small); a.real == nil || b.real == nil || a.served.After(b.served) {
			t.Errorf("the large one is served at %v, the small one after it at %v", a.served, b.served)
		}
	})
}

// Without a wait nobody jumps a line of his own class, nor of one that is ahead; a class ahead does
// not stand behind those that are not.
func TestFairReserveJumpsNoLine(t *testing.T) {
	classes := map[string]ratelimit.Class{"ahead": {Ahead: true}, "low": {Weight: 1}}
	for _, tt := range []struct {
		waits, asks string
		queued      bool
	}{
		{"low", "low", true}, {"", "", true}, {"ahead", "ahead", true}, {"ahead", "low", true}, {"ahead", "", true}, {"unknown", "", true},
		{"low", "ahead", false}, {"", "ahead", false},
	} {
		t.Run(fmt.Sprintf("%q waits, %q asks", tt.waits, tt.asks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFairHall(t, ratelimit.Config{Classes: classes, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100}}})
				h.rl.RecordUsage("m", 50, 0)
				h.come(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 80, Class: tt.waits})
				req := ratelimit.Request{Model: "m", PromptTokens: 10, Class: tt.asks}
				check := func(how string, d ratelimit.Decision) {
					t.Helper()
					if d.Allowed == tt.queued || tt.queued && d.Code != ratelimit.DecisionQueued {
						t.Errorf("%s: %+v", how, d)
					}
				}
				check("DecideRequest", h.rl.DecideRequest(req))
				if tt.asks == "" {
					check("Decide", h.rl.Decide("m", 10))
					if h.rl.CanSend("m", 10) {
						t.Error("CanSend jumps the queue")
					}
				}
				rs, d := h.rl.ReserveContext(ratelimit.WithClass(t.Context(), tt.asks), ratelimit.Request{Model: "m", PromptTokens: 10})
				check("ReserveContext", d)
				rs.Cancel()
				rs, d = h.rl.ReserveAll(req)
				check("ReserveAll", d)
				rs.Cancel()
				if tt.asks != "" { // a request beats its context
					rs, d = h.rl.ReserveContext(ratelimit.WithClass(t.Context(), "ahead"), req)
					check("ReserveContext of another class", d)
					rs.Cancel()
				}
			})
		})
	}
}

// A large call at the head of one class does not keep another class from its own share for longer
// than it takes that share to make up for it, and gets room itself.
func TestFairLargeHeadDoesNotBlockAnotherClass(t *testing.T) {
	for _, quota := range []ratelimit.ModelQuota{{MaxTPM: 10_000}, {MaxTPM: 10_000, Burst: 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{
				Classes: map[string]ratelimit.Class{"large": {Weight: 1}, "small": {Weight: 1}},
				Quotas:  map[string]ratelimit.ModelQuota{"m": quota},
			})
			large := fairLoad{class: "large", model: "m", callers: 5, smallest: 6000}
			small := fairLoad{class: "small", model: "m", callers: 250, smallest: 50, larger: 100}
			tokens, _, longest := runLoads(t, []*ratelimit.RateLimiter{rl}, 1, 30*time.Minute, large, small)
			if got := share(tokens, "small"); got < 0.47 || got > 0.53 {
				t.Errorf("%+v: the small ones have %.3f of %v", quota, got, tokens)
			}
			// Each has 5,000 a minute at most: six minutes for what waits of the one, five for the
			// other.
			if longest["small"] > 9*time.Minute || longest["large"] > 9*time.Minute {
				t.Errorf("%+v: waits of %v", quota, longest)
			}

			rl.Reset("m")
			small = fairLoad{class: "small", model: "m", callers: 4, smallest: 100, lasts: 15 * time.Second} // a tenth of the quota
			tokens, calls, longest := runLoads(t, []*ratelimit.RateLimiter{rl}, 2, 30*time.Minute, large, small)
			if longest["small"] > 2*time.Minute || tokens["large"] < 170_000 {
				t.Errorf("%+v: %d small ones beside large ones that wait, waits of %v, tokens %v", quota, calls["small"], longest, tokens)
			}
		})
	}
}

// A call that is larger than what the reserves of others leave is served all the same.
func TestFairLargeCallBesideAReserve(t *testing.T) {
	for _, quota := range []ratelimit.ModelQuota{{MaxTPM: 100}, {MaxTPM: 100, Burst: 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			h := newFairHall(t, ratelimit.Config{
				Classes: map[string]ratelimit.Class{"y": {ReservePercent: 40}},
				Quotas:  map[string]ratelimit.ModelQuota{"m": quota},
			})
			ctx, cancel := context.WithCancel(t.Context())
			var y sync.WaitGroup
			y.Go(func() { // always active, and never above its reserve
				for {
					r, err := h.rl.Acquire(ratelimit.WithClass(ctx, "y"), "m", 3, 0)
					if err != nil {
						return
					}
					r.Commit(3, 0)
					time.Sleep(10 * time.Second)
				}
			})
			time.Sleep(5 * time.Minute)
			large := h.come(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 75})
			time.Sleep(10 * time.Minute)
			if h.now(large).real == nil {
				t.Errorf("%+v: a call of 75 beside a reserve of 40 waits for more than ten minutes", quota)
			}
			cancel()
			y.Wait()
		})
	}
}

// Of ten thousand that wait, the last of the lowest class is served in time: all of the room goes
// to those that wait, and its class has its share of it.
func TestFairLastOfTenThousandWaiters(t *testing.T) {
	for _, tt := range []struct {
		name  string
		high  ratelimit.Class
		bound time.Duration
	}{
		// 1,000 a minute, and a minute until there is room first.
		{"weights", ratelimit.Class{Weight: 9}, 12 * time.Minute},
		{"ahead", ratelimit.Class{Ahead: true}, 12 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const crowd = 10_000
				rl := newLimiterWith(t, ratelimit.Config{
					Classes: map[string]ratelimit.Class{"high": tt.high, "low": {Weight: 1}},
					Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000}},
				})
				for range 1000 {
					rl.RecordUsage("m", 1, 0)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var all sync.WaitGroup
				longest := make(map[string]time.Duration)
				var kept []*ratelimit.Reservation
				for i := range crowd {
					class := []string{"high", "low"}[i%2]
					all.Go(func() {
						came := time.Now()
						r, err := rl.Acquire(ratelimit.WithClass(ctx, class), "m", 1, 0)
						if err != nil {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						kept = append(kept, r)
						longest[class] = max(longest[class], time.Since(came))
					})
				}
				synctest.Wait()
				if s := rl.Stats("m"); s.Waiting != crowd {
					t.Errorf("%d wait", s.Waiting)
				}
				time.Sleep(tt.bound)
				synctest.Wait()
				mu.Lock()
				if len(kept) != crowd || longest["low"] > 10*time.Minute+10 || longest["high"] >= longest["low"] {
					t.Errorf("%d were served, after %v at most", len(kept), longest)
				}
				mu.Unlock()
				cancel()
				all.Wait()
				runtime.KeepAlive(kept)
			})
		})
	}
}

// newTurnsHall returns a hall with a model m that serves one call a second, none of them now.
func newTurnsHall(t *testing.T, cfg ratelimit.Config) *fairHall {
	h := newFairHall(t, cfg)
	h.rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 60, Burst: time.Second})
	h.rl.RecordUsage("m", 1, 0)
	return h
}

// comeMany has so many calls of a flow wait for model m.
func (h *fairHall) comeMany(ctx context.Context, n int, flow string) {
	for range n {
		h.come(ctx, ratelimit.Request{Model: "m", Class: "c", Flow: flow})
	}
}

// servedBefore waits until a call is served, and returns how many of each flow went before it.
func (h *fairHall) servedBefore(c *fairCall) map[string]int {
	h.Helper()
	time.Sleep(time.Hour)
	if h.now(c).real == nil {
		h.Fatal("the call still waits after an hour")
	}
	before := make(map[string]int)
	for _, other := range h.order() {
		if other == c {
			return before
		}
		before[other.req.Flow]++
	}
	return before
}

// Calls that leave a line unserved have taken no turn: those of their flow behind them move up.
func TestFairCallsThatLeaveTakeNoTurn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		leave func(h *fairHall, many int) // a flow puts so many calls in line, which leave it
	}{
		{"cancelled", func(h *fairHall, many int) {
			ctx, cancel := context.WithCancel(h.Context())
			h.comeMany(ctx, many, "A")
			h.Cleanup(cancel)
			time.AfterFunc(time.Millisecond, cancel)
		}},
		{"deadline", func(h *fairHall, many int) {
			ctx, cancel := context.WithTimeout(h.Context(), 1500*time.Millisecond)
			h.Cleanup(cancel)
			h.comeMany(ctx, many, "A")
		}},
		{"served by another candidate", func(h *fairHall, many int) {
			h.rl.SetQuota("n", ratelimit.ModelQuota{MaxInFlight: 1})
			open, _ := h.rl.Reserve("n", 0, 0)
			for range many {
				go h.rl.AcquireAny(h.Context(), ratelimit.AnyOptions{}, ratelimit.Request{Model: "m", Class: "c", Flow: "A"}, ratelimit.Request{Model: "n", Class: "c", Flow: "A"})
				synctest.Wait()
			}
			time.AfterFunc(time.Millisecond, func() {
				h.rl.SetQuota("n", ratelimit.ModelQuota{})
				open.Cancel()
			})
		}},
		{"another candidate has room", func(h *fairHall, many int) {
			for range many {
				go h.rl.AcquireAny(h.Context(), ratelimit.AnyOptions{}, ratelimit.Request{Model: "m", Class: "c", Flow: "A"}, ratelimit.Request{Model: "n", Class: "c", Flow: "A"})
				synctest.Wait()
			}
		}},
		{"refused meanwhile", func(h *fairHall, many int) {
			for range many {
				h.come(h.Context(), ratelimit.Request{Model: "m", PromptTokens: 10, Class: "c", Flow: "A"})
			}
			time.AfterFunc(time.Millisecond, func() {
				h.rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 60, MaxTPM: 9, Burst: time.Second})
			})
		}},
	} {
		for _, classes := range []map[string]ratelimit.Class{nil, {"c": {}}} {
			for _, many := range []int{50, 1000} {
				if testing.Short() && many > 50 {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d, %d classes", tt.name, many, len(classes)), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := newTurnsHall(t, ratelimit.Config{Classes: classes})
						h.comeMany(t.Context(), 100, "B")
						tt.leave(h, many)
						last := h.come(t.Context(), ratelimit.Request{Model: "m", Class: "c", Flow: "A"})
						if before := h.servedBefore(last); before["B"] > 1 || before["A"] > 0 {
							t.Errorf("it waits for %v, want one of B", before)
						}
					})
				})
			}
		}
	}
}

// A call of a flow that comes waits for one call of each other flow, whenever it comes.
func TestFairNewFlowWaitsForOneCallOfEach(t *testing.T) {
	for after := range 5 {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTurnsHall(t, ratelimit.Config{})
				for _, flow := range []string{"x", "y", "z"} {
					h.comeMany(t.Context(), 20, flow)
				}
				time.Sleep(time.Duration(after)*time.Second + time.Millisecond)
				served := len(h.order())
				c := h.come(t.Context(), ratelimit.Request{Model: "m", Flow: "new"})
				before := -served
				for _, n := range h.servedBefore(c) {
					before += n
				}
				if before != 3 {
					t.Errorf("after %d services it waits for %d calls, want one of each of three", served, before)
				}
			})
		})
	}
}

// Flows keep their turns when the lines are made anew, by a change of classes, quotas or pools. The
// headers of a provider can change a quota with each call.
func TestFairFlowsKeepTheirTurns(t *testing.T) {
	pool := func(limit int) ratelimit.Pool {
		return ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: limit}}
	}
	classes := func(weight int) map[string]ratelimit.Class { return map[string]ratelimit.Class{"c": {Weight: weight}} }
	for _, tt := range []struct {
		name   string
		cfg    ratelimit.Config
		change func(h *fairHall, i int)
	}{
		{"classes", ratelimit.Config{Classes: classes(1)}, func(h *fairHall, i int) { h.rl.SetClasses(classes(i)) }},
		{"no classes any more", ratelimit.Config{}, func(h *fairHall, i int) { h.rl.SetClasses(nil) }},
		{"a pool", ratelimit.Config{Classes: classes(1)}, func(h *fairHall, i int) { h.rl.SetPool("p", pool(1000+i)) }},
		{"a pool comes and goes", ratelimit.Config{}, func(h *fairHall, i int) {
			if h.rl.SetPool("p", pool(1000)); i%2 == 0 {
				h.rl.RemovePool("p")
			}
		}},
		{"the quota of another model", ratelimit.Config{Pools: map[string]ratelimit.Pool{"p": pool(1000)}}, func(h *fairHall, i int) {
			h.rl.SetQuota("n", ratelimit.ModelQuota{MaxRPM: i})
		}},
		{"its own quota", ratelimit.Config{MatchVersions: true}, func(h *fairHall, i int) {
			h.rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 60, MaxRPD: 1000 + i, Burst: time.Second})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTurnsHall(t, tt.cfg)
				h.comeMany(t.Context(), 20, "B")
				h.comeMany(t.Context(), 20, "") // calls without a flow are of one
				last := h.come(t.Context(), ratelimit.Request{Model: "m", Class: "c", Flow: "A"})
				for i := range 10 {
					time.AfterFunc(time.Duration(i)*time.Second+time.Millisecond, func() { tt.change(h, i+1) })
				}
				if before := h.servedBefore(last); before["B"] != 1 || before[""] != 1 {
					t.Errorf("it waits for %v, want one call of each other flow", before)
				}
			})
		})
	}
}
