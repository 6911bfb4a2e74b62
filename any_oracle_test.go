// The first that fits: AcquireAny and ReserveAny against what Decide says of each candidate.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// anyCall is a call of AcquireAny.
type anyCall struct {
	came, back time.Time // zero while it waits
	real       *ratelimit.Reservation
	err        error
}

// anyHall is where they wait.
type anyHall struct {
	*testing.T
	rl    *ratelimit.RateLimiter
	mu    sync.Mutex
	calls []*anyCall
}

func newAnyHall(t *testing.T, cfg ratelimit.Config) *anyHall {
	h := &anyHall{T: t, rl: newLimiterWith(t, cfg)}
	t.Cleanup(func() { runtime.KeepAlive(h.calls) })
	return h
}

func (h *anyHall) come(ctx context.Context, opts ratelimit.AnyOptions, reqs ...ratelimit.Request) *anyCall {
	c := &anyCall{came: time.Now()}
	h.calls = append(h.calls, c)
	go func() {
		r, err := h.rl.AcquireAny(ctx, opts, reqs...)
		h.mu.Lock()
		defer h.mu.Unlock()
		c.real, c.err, c.back = r, err, time.Now()
	}()
	synctest.Wait()
	return c
}

// served checks that a call was served by a model after so long.
func (h *anyHall) served(c *anyCall, model string, after time.Duration) {
	h.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.back.IsZero():
		h.Errorf("it still waits, want it served by %s after %v", model, after)
	case c.err != nil:
		h.Errorf("%v, want it served by %s after %v", c.err, model, after)
	case c.real.Model() != model || c.back.Sub(c.came) != after:
		h.Errorf("served by %s after %v, want by %s after %v", c.real.Model(), c.back.Sub(c.came), model, after)
	}
}

func (h *anyHall) waits(c *anyCall) {
	h.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.back.IsZero() {
		h.Errorf("it has returned with %v, want it to wait", c.err)
	}
}

// counted checks what models have charged, and that nobody waits.
func (h *anyHall) counted(waiting int, calls map[string]int) {
	h.Helper()
	for model, n := range calls {
		if s := h.rl.Stats(model); s.RPM != n || s.InFlight != n || s.Waiting != waiting {
			h.Errorf("%s has %d requests, %d in flight and %d waiters, want %d and %d", model, s.RPM, s.InFlight, s.Waiting, n, waiting)
		}
	}
}

func requestsOf(tokens int, models ...string) (reqs []ratelimit.Request) {
	for _, model := range models {
		reqs = append(reqs, ratelimit.Request{Model: model, PromptTokens: tokens})
	}
	return reqs
}

func threeModels(q ratelimit.ModelQuota) ratelimit.Config {
	return ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": q, "b": q, "c": q}}
}

// The first candidate with room is charged, in the order of preference, and no other.
func TestAcquireAnyFollowsThePreference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAnyHall(t, threeModels(ratelimit.ModelQuota{MaxRPM: 2}))
		for _, want := range []string{"b", "b", "a", "a", "c", "c"} {
			h.served(h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(1, "b", "a", "c")...), want, 0)
		}
		h.counted(0, map[string]int{"a": 2, "b": 2, "c": 2})
		c := h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(1, "b", "a", "c")...)
		h.waits(c)
		h.counted(1, map[string]int{"a": 2, "b": 2, "c": 2})
		time.Sleep(7 * time.Second)
		h.calls[4].real.Cancel() // of c
		h.served(c, "c", 7*time.Second)
		h.counted(0, map[string]int{"a": 2, "b": 2, "c": 2})
	})
}

// A call that was served by one model has left the lines of the others in the same moment: those
// behind it go on.
func TestAcquireAnyHoldsUpNobodyOnceServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAnyHall(t, threeModels(ratelimit.ModelQuota{MaxTPM: 100}))
		fill, _ := h.rl.Reserve("b", 100, 0)
		h.rl.RecordUsage("a", 50, 0)
		large := h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(80, "a", "b")...)
		behind := h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(30, "a")...)
		alike := h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(20, "b", "a")...)
		h.waits(large)
		h.waits(behind)
		h.waits(alike)
		if _, d := h.rl.Reserve("a", 30, 0); d.Code != ratelimit.DecisionQueued {
			t.Errorf("a call that would jump the queue: %+v", d)
		}
		time.Sleep(3 * time.Second)
		fill.Cancel()
		h.served(large, "b", 3*time.Second)
		h.served(behind, "a", 3*time.Second)
		h.served(alike, "b", 3*time.Second)
		for _, model := range []string{"a", "b", "c"} {
			if s := h.rl.Stats(model); s.Waiting != 0 {
				t.Errorf("%s has %d waiters", model, s.Waiting)
			}
		}
	})
}

// Patience: the first candidate alone for so long, then any.
func TestAcquireAnyWithPatience(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patience time.Duration
		opens    time.Duration // when a has room; b has it all the time
		model    string
		after    time.Duration
	}{
		{"none", 0, 30 * time.Second, "b", 0},
		{"negative", -time.Second, 30 * time.Second, "b", 0},
		{"too little", 10 * time.Second, 30 * time.Second, "b", 10 * time.Second},
		{"enough", 40 * time.Second, 30 * time.Second, "a", 30 * time.Second},
		{"one nanosecond", 1, 30 * time.Second, "b", 1},
		{"not needed", time.Minute, 0, "a", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newAnyHall(t, threeModels(ratelimit.ModelQuota{MaxRPM: 1}))
				if tt.opens > 0 {
					full, _ := h.rl.Reserve("a", 1, 0)
					time.AfterFunc(tt.opens, full.Cancel)
				}
				c := h.come(t.Context(), ratelimit.AnyOptions{Patience: tt.patience}, requestsOf(1, "a", "b")...)
				time.Sleep(time.Minute)
				h.served(c, tt.model, tt.after)
			})
		})
	}
}

// Patience that is over while no candidate has room: the next that opens is taken. While it lasts,
// the call stands in one line only.
func TestAcquireAnyWaitsOnAfterPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAnyHall(t, threeModels(ratelimit.ModelQuota{MaxRPM: 1}))
		for _, model := range []string{"a", "b", "c"} {
			h.rl.RecordUsage(model, 1, 0)
			time.Sleep(10 * time.Second)
		}
		c := h.come(t.Context(), ratelimit.AnyOptions{Patience: 5 * time.Second}, requestsOf(1, "c", "b")...)
		if s := h.rl.Stats("b"); s.Waiting != 0 {
			t.Errorf("a patient call stands in the line of its second choice")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := h.rl.Stats("b"); s.Waiting != 1 {
			t.Errorf("%d wait for the second choice after the patience, want 1", s.Waiting)
		}
		time.Sleep(time.Minute)
		h.served(c, "b", 40*time.Second+1)
	})
}

// One place that becomes free serves one of a crowd, and the rest stay where they are.
func TestAcquireAnyHasNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAnyHall(t, threeModels(ratelimit.ModelQuota{MaxInFlight: 1}))
		open := map[string]*ratelimit.Reservation{}
		for _, model := range []string{"a", "b", "c"} {
			open[model], _ = h.rl.Reserve(model, 1, 0)
		}
		const crowd = 60
		for range crowd {
			h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(1, "a", "b", "c")...)
		}
		for i := range crowd {
			time.Sleep(time.Second)
			model := []string{"b", "c", "a"}[i%3]
			open[model].Commit(1, 0)
			h.served(h.calls[i], model, time.Second*time.Duration(i+1))
			open[model] = h.calls[i].real
			for _, model := range []string{"a", "b", "c"} {
				if s := h.rl.Stats(model); s.InFlight != 1 || s.Waiting != crowd-i-1 {
					t.Fatalf("after %d: %s has %d calls and %d waiters", i, model, s.InFlight, s.Waiting)
				}
			}
		}
	})
}

// The errors are those that all candidates have.
func TestAcquireAnyErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := threeModels(ratelimit.ModelQuota{MaxTPM: 100})
		cfg.MaxQueue = 1
		h := newAnyHall(t, cfg)
		for _, model := range []string{"a", "b", "c"} {
			h.rl.RecordUsage(model, 100, 0)
		}
		fails := func(want error, ctx context.Context, reqs ...ratelimit.Request) {
			t.Helper()
			r, err := h.rl.AcquireAny(ctx, ratelimit.AnyOptions{}, reqs...)
			if r != nil || !errors.Is(err, want) {
				t.Errorf("%+v: %v and %v, want %v", reqs, r, err, want)
			}
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone, leave := context.WithCancel(t.Context())
		leave()
		fails(context.Canceled, gone, requestsOf(1, "a", "b")...)
		fails(ratelimit.ErrNeverFits, t.Context(), requestsOf(101, "a", "b")...)
		fails(context.DeadlineExceeded, soon, requestsOf(1, "a", "b")...)
		fails(ratelimit.ErrInvalidTokens, t.Context(), requestsOf(-1, "a")...)
		if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) != 0 {
			t.Error("an error that does not come at once")
		}

		mixed := []ratelimit.Request{{Model: "a", PromptTokens: 101}, {Model: "b", PromptTokens: 1}}
		c := h.come(t.Context(), ratelimit.AnyOptions{}, mixed...)
		h.waits(c)
		fails(ratelimit.ErrQueueFull, t.Context(), requestsOf(1, "b")...)
		d := h.come(t.Context(), ratelimit.AnyOptions{}, requestsOf(1, "b", "a")...) // the line of a is empty
		h.waits(d)
		fails(ratelimit.ErrQueueFull, t.Context(), requestsOf(1, "a", "b")...)
		leaving, leave := context.WithCancel(t.Context())
		e := h.come(leaving, ratelimit.AnyOptions{}, requestsOf(1, "c", "b")...)
		leave()
		synctest.Wait()
		if !errors.Is(e.err, context.Canceled) || h.rl.Stats("c").Waiting != 0 {
			t.Errorf("a call that leaves: %v, and %d wait", e.err, h.rl.Stats("c").Waiting)
		}
		time.Sleep(time.Minute + 1)
		h.served(c, "b", time.Minute+1)
		h.mu.Lock()
		defer h.mu.Unlock()
		if d.real == nil || d.err != nil {
			t.Errorf("the second call: %v", d.err)
		}
	})
}

// ReserveAny charges the first candidate that Decide allows; else it says what opens first.
func TestReserveAnyAgreesWithDecide(t *testing.T) {
	for seed := range uint64(times(20, 4, 2000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playReserveAny(t, rand.New(rand.NewPCG(seed, 41))) })
		})
	}
}

func playReserveAny(t *testing.T, random *rand.Rand) {
	models := []string{"a", "b", "c", "d", "unknown"}
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"a": {MaxRPM: 3}, "b": {MaxTPM: 100, MaxRPM: 6}, "c": {MaxInFlight: 2}, "d": {MaxRPD: 5, MaxTPM: 60},
	}})
	var open []*ratelimit.Reservation
	for step := range 300 {
		reqs := make([]ratelimit.Request, random.IntN(4))
		for i := range reqs {
			reqs[i] = ratelimit.Request{Model: models[random.IntN(len(models)-random.IntN(2))], PromptTokens: random.IntN(70), OutputTokens: random.IntN(20)}
		}
		want, which := ratelimit.Decision{}, -1
		for i, req := range reqs {
			d := rl.DecideRequest(req)
			if d.Allowed {
				want, which = d, i
				break
			}
			opens := d.RetryAfter > 0 && (want.RetryAfter == 0 || d.RetryAfter < want.RetryAfter)
			if i == 0 || opens || want.Never && !d.Never {
				want = d
			}
		}
		r, d := rl.ReserveAny(reqs...)
		switch {
		case len(reqs) == 0:
			if r != nil || !d.Allowed {
				t.Fatalf("step %d: nothing: %v %+v", step, r, d)
			}
		case d != want || (r != nil) != (which >= 0) || r != nil && r.Model() != reqs[which].Model:
			t.Fatalf("step %d: %+v:\n%v %+v, want\n%+v", step, reqs, r, d, want)
		}
		if r != nil {
			open = append(open, r)
		}
		for len(open) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(open))
			if open[i].Commit(random.IntN(90), 0); random.IntN(2) == 0 {
				open[i].Cancel() // does nothing
			}
			open = append(open[:i], open[i+1:]...)
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(30 * time.Second))))
		}
	}
	runtime.KeepAlive(open)
}
