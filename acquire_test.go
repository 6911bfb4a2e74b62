// Acquire: the line before a model, and what becomes of its waiters.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// queue lets goroutines acquire one after the other, and notes when each was
// through.
type queue struct {
	*testing.T
	rl    *ratelimit.RateLimiter
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex
	log   []string
}

func newQueue(t *testing.T, rl *ratelimit.RateLimiter) *queue {
	return &queue{T: t, rl: rl, start: time.Now()}
}

func (q *queue) note(name string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	text := fmt.Sprintf("%s %v", name, time.Since(q.start).Truncate(time.Millisecond))
	if err != nil {
		text += " " + err.Error()
	}
	q.log = append(q.log, text)
}

// join starts a goroutine that does something, and waits until it waits.
func (q *queue) join(name string, do func() error) {
	q.wg.Go(func() { q.note(name, do()) })
	synctest.Wait()
}

// acquire joins with an Acquire, and settles what it gets after a while.
func (q *queue) acquire(name string, ctx context.Context, tokens int, call time.Duration) {
	q.join(name, func() error {
		r, err := q.rl.Acquire(ctx, "m", tokens, 0)
		if err == nil {
			time.AfterFunc(call, func() { r.Commit(tokens, 0) })
		}
		return err
	})
}

// want waits for all and compares what happened. What happens in the same instant
// has no order that others could see.
func (q *queue) want(lines ...string) {
	q.Helper()
	q.wg.Wait()
	slices.Sort(q.log)
	slices.Sort(lines)
	if !slices.Equal(q.log, lines) {
		q.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(q.log, "\n\t"), strings.Join(lines, "\n\t"))
	}
	if n := q.rl.Stats("m").Waiting; n != 0 {
		q.Errorf("%d wait in the end", n)
	}
}

func TestAcquireServesInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100}))
		ctx := t.Context()
		q.acquire("first", ctx, 60, time.Hour)
		time.Sleep(10 * time.Second)
		q.acquire("large", ctx, 90, time.Hour)
		q.acquire("small", ctx, 10, time.Hour)
		q.acquire("smaller", ctx, 1, time.Hour)
		if n := q.rl.Stats("m").Waiting; n != 3 {
			t.Errorf("%d wait", n)
		}
		for _, d := range []ratelimit.Decision{q.rl.Decide("m", 1), func() ratelimit.Decision { _, d := q.rl.Reserve("m", 1, 0); return d }()} {
			if d.Allowed || d.Never || d.Code != ratelimit.DecisionQueued || d.RetryAfter != 0 || d.Model != "m" {
				t.Errorf("it jumps the queue: %+v", d)
			}
		}
		if q.rl.CanSend("m", 1) {
			t.Error("CanSend jumps the queue")
		}
		if d := q.rl.Decide("m", 101); !d.Never || d.Code != ratelimit.DecisionTPMLimit {
			t.Errorf("what never fits waits for nobody: %+v", d)
		}
		q.want("first 0s", "large 1m0s", "small 1m0s", "smaller 2m0s")
	})
}

func TestAcquireWakesWhenRoomIsMade(t *testing.T) {
	tests := []struct {
		name string
		do   func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error
		want []string
	}{
		{"Commit", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { held.Commit(50, 0); return nil },
			[]string{"a 5s", "b 1m0s"}},
		{"Cancel", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { held.Cancel(); return nil },
			[]string{"a 5s", "b 5s"}},
		{"Reset", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { rl.Reset("m"); return nil },
			[]string{"a 5s", "b 5s"}},
		{"Reset of all", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { rl.Reset(""); return nil },
			[]string{"a 5s", "b 5s"}},
		{"SetQuota", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 150})
			return nil
		}, []string{"a 5s", "b 1m0s"}},
		{"SetQuota to less", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 50})
			return nil
		}, []string{`b 5s acquire: model "m": the request alone exceeds the tokens per minute: request never fits its quota`, "a 1m0s"}},
		{"Load", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { return rl.Load() },
			[]string{"a 5s", "b 5s"}},
		{"Close", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { return rl.Close() },
			[]string{"a 5s acquire: limiter is closed", "b 5s acquire: limiter is closed"}},
		{"nothing", func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation) error { return nil },
			[]string{"a 1m0s", "b 1m0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100})
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				held := reserve(t, rl, "m", 100, 0)
				q := newQueue(t, rl)
				q.acquire("a", t.Context(), 40, 0)
				q.acquire("b", t.Context(), 60, 0)
				time.Sleep(5 * time.Second)
				if err := tt.do(rl, held); err != nil {
					t.Fatal(err)
				}
				q.want(tt.want...)
			})
		})
	}
}

func TestCancelledWaiterLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100})
		reserve(t, rl, "m", 50, 0)
		q := newQueue(t, rl)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		time.AfterFunc(20*time.Second, cancel)
		q.acquire("large", ctx, 100, 0)
		q.acquire("small", t.Context(), 50, 0)
		q.acquire("next", t.Context(), 1, 0)
		q.want("large 20s context canceled", "small 20s", "next 1m0s")
	})
}

func TestAcquireInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 2}))
		for i, call := range []time.Duration{3 * time.Hour, time.Hour, time.Hour, time.Hour, 0} {
			q.acquire(fmt.Sprint(i), t.Context(), 1, call)
		}
		q.want("0 0s", "1 0s", "2 1h0m0s", "3 2h0m0s", "4 3h0m0s")
	})
}

func TestAcquireErrors(t *testing.T) {
	deadline := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	tests := []struct {
		name           string
		context        func(context.Context) (context.Context, context.CancelFunc)
		prompt, output int
		want           error
		code           ratelimit.DecisionCode // of the LimitError; empty for none
		after          time.Duration
	}{
		{"the context comes first", deadline(-1), -1, 0, context.DeadlineExceeded, "", 0},
		{"a negative prompt", deadline(time.Hour), -1, 0, ratelimit.ErrInvalidTokens, "", 0},
		{"a negative output", deadline(time.Hour), 1, -2, ratelimit.ErrInvalidTokens, "", 0},
		{"larger than the quota", deadline(time.Hour), 60, 41, ratelimit.ErrNeverFits, ratelimit.DecisionTPMLimit, 0},
		{"cannot even alone pass before the deadline", deadline(59 * time.Second), 50, 1, context.DeadlineExceeded, ratelimit.DecisionTPMLimit, 0},
		{"the queue is full", deadline(time.Hour), 1, 1, ratelimit.ErrQueueFull, ratelimit.DecisionQueued, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{
					Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100}}, MaxQueue: 1,
				})
				reserve(t, rl, "m", 50, 0).Commit(50, 0)
				if tt.want == ratelimit.ErrQueueFull {
					q := newQueue(t, rl)
					q.acquire("first", t.Context(), 100, 0)
					defer q.wg.Wait()
				}
				ctx, cancel := tt.context(t.Context())
				defer cancel()
				started := time.Now()
				r, err := rl.Acquire(ctx, "m", tt.prompt, tt.output)
				if r != nil || !errors.Is(err, tt.want) || time.Since(started) != tt.after {
					t.Errorf("%v, %v after %v, want %v", r, err, time.Since(started), tt.want)
				}
				var limit *ratelimit.LimitError
				if isLimit := errors.As(err, &limit); isLimit != (tt.code != "") {
					t.Fatalf("a LimitError: %v", err)
				} else if isLimit && (limit.Model != "m" || limit.Decision.Code != tt.code || limit.Decision.Allowed || !strings.HasPrefix(err.Error(), "acquire: ")) {
					t.Errorf("%q %+v", err, limit)
				}
				if (tt.want == ratelimit.ErrNeverFits) != errors.Is(err, ratelimit.ErrNeverFits) {
					t.Error(err)
				}
			})
		})
	}
}

// A deadline that lies behind the wait of the request alone is waited for, also
// where others stand before it.
func TestAcquireDeadlineInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		reserve(t, rl, "m", 1, 0)
		q := newQueue(t, rl)
		q.acquire("first", t.Context(), 1, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		q.join("second", func() error {
			_, err := rl.Acquire(ctx, "m", 1, 0)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return nil
		})
		q.wg.Wait()
		synctest.Wait()
		wantUsed(t, rl, "m", "1/1+0/2/2/1")
	})
}

func TestWaitForCapacityWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100})
		reserve(t, rl, "m", 50, 0)
		q := newQueue(t, rl)
		q.acquire("large", t.Context(), 100, 0)
		q.join("wait", func() error { return rl.WaitForCapacity(t.Context(), "m", 1) })
		q.acquire("small", t.Context(), 100, 0)
		q.want("large 1m0s", "wait 2m0s", "small 2m0s")
	})
}

func TestThousandWaitersOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		for range 100 {
			reserve(t, rl, "m", 1, 0)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for i := range 1000 {
			wg.Go(func() {
				if _, err := rl.Acquire(t.Context(), "m", 1, 0); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i/100)
			})
			synctest.Wait()
		}
		started := time.Now()
		wg.Wait()
		if !slices.IsSorted(order) || time.Since(started) != 10*(time.Minute+1) {
			t.Errorf("out of order, or in %v", time.Since(started))
		}
	})
}

func TestReserveAll(t *testing.T) {
	type req = ratelimit.Request
	quotas := map[string]ratelimit.ModelQuota{
		"a": {MaxRPM: 3, MaxTPM: 100}, "b": {MaxTPM: 50, MaxInFlight: 1}, "org": {MaxRPD: 2},
	}
	tests := []struct {
		name  string
		reqs  []req
		want  ratelimit.DecisionCode
		model string // who denied
		never bool
		retry time.Duration
	}{
		{"none", nil, ratelimit.DecisionAllowed, "", false, 0},
		{"one", []req{{Model: "a", PromptTokens: 1, OutputTokens: 1}}, ratelimit.DecisionAllowed, "a", false, 0},
		{"all", []req{{Model: "a", PromptTokens: 1, OutputTokens: 1}, {Model: "b", PromptTokens: 1, OutputTokens: 1}, {Model: "org", PromptTokens: 0, OutputTokens: 0}, {Model: "unknown", PromptTokens: 5, OutputTokens: 5}}, ratelimit.DecisionAllowed, "", false, 0},
		{"one twice", []req{{Model: "a", PromptTokens: 40, OutputTokens: 1}, {Model: "a", PromptTokens: 40, OutputTokens: 1}}, ratelimit.DecisionAllowed, "", false, 0},
		{"one twice too often", []req{{Model: "a", PromptTokens: 1, OutputTokens: 1}, {Model: "b", PromptTokens: 1, OutputTokens: 1}, {Model: "b", PromptTokens: 1, OutputTokens: 1}}, ratelimit.DecisionInFlightLimit, "b", true, 0},
		{"together too large", []req{{Model: "a", PromptTokens: 50, OutputTokens: 1}, {Model: "a", PromptTokens: 50, OutputTokens: 1}}, ratelimit.DecisionTPMLimit, "a", true, 0},
		{"now together too large", []req{{Model: "a", PromptTokens: 50, OutputTokens: 1}, {Model: "a", PromptTokens: 40, OutputTokens: 1}}, ratelimit.DecisionTPMLimit, "a", false, time.Minute + 1},
		{"the second denies", []req{{Model: "a", PromptTokens: 1, OutputTokens: 1}, {Model: "b", PromptTokens: 51, OutputTokens: 0}}, ratelimit.DecisionTPMLimit, "b", true, 0},
		{"an alias of the same", []req{{Model: "org", PromptTokens: 0, OutputTokens: 0}, {Model: "alias", PromptTokens: 0, OutputTokens: 0}}, ratelimit.DecisionRPDLimit, "org", false, 24 * time.Hour},
		{"a negative one", []req{{Model: "a", PromptTokens: 1, OutputTokens: 1}, {Model: "a", PromptTokens: -1, OutputTokens: 1}}, ratelimit.DecisionInvalidTokens, "a", true, 0},
		{"negative for an unknown model", []req{{Model: "unknown", PromptTokens: 1, OutputTokens: -1}}, ratelimit.DecisionInvalidTokens, "unknown", true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas, Aliases: map[string]string{"alias": "org"}})
				reserve(t, rl, "a", 10, 0)
				reserve(t, rl, "org", 0, 0)
				before := rl.AllStats()
				rs, d := rl.ReserveAll(tt.reqs...)
				if d.Code != tt.want || d.Model != tt.model || d.Never != tt.never || d.RetryAfter != tt.retry {
					t.Fatalf("%+v", d)
				}
				if d.Allowed != (tt.want == ratelimit.DecisionAllowed) || d.Allowed && len(rs) != len(tt.reqs) || !d.Allowed && rs != nil {
					t.Fatalf("%d reservations with %+v", len(rs), d)
				}
				for i, r := range rs {
					if r.Model() != tt.reqs[i].Model {
						t.Errorf("reservation %d is of %q", i, r.Model())
					}
				}
				if d.Allowed && rl.Stats("a").InFlight != 1+countOf(tt.reqs, "a") {
					t.Errorf("a: %+v", rl.Stats("a"))
				}
				rs.Cancel()
				for model, stats := range before {
					if got := rl.Stats(model); got != stats {
						t.Errorf("%s: %+v, was %+v", model, got, stats)
					}
				}
			})
		})
	}
}

func countOf(reqs []ratelimit.Request, model string) (n int) {
	for _, req := range reqs {
		if req.Model == model {
			n++
		}
	}
	return n
}

func TestAcquireAllHoldsNothingWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"a": {MaxInFlight: 1}, "b": {MaxInFlight: 1}, "c": {MaxInFlight: 1},
		}})
		all := func(models ...string) func() error {
			return func() error {
				var reqs []ratelimit.Request
				for _, model := range models {
					reqs = append(reqs, ratelimit.Request{Model: model})
				}
				rs, err := rl.AcquireAll(t.Context(), reqs...)
				time.AfterFunc(time.Second, rs.Cancel)
				return err
			}
		}
		b := reserve(t, rl, "b", 0, 0)
		time.AfterFunc(time.Minute, b.Cancel)
		q := newQueue(t, rl)
		q.join("ab", all("a", "b"))
		if rl.Stats("a").InFlight != 0 {
			t.Error("it holds what it does not use")
		}
		q.join("a", all("a"))       // behind ab
		q.join("bc", all("b", "c")) // behind ab
		q.join("ca", all("c", "a")) // behind bc and a
		q.join("c", all("c"))       // behind ca
		q.want("ab 1m0s", "a 1m1s", "bc 1m1s", "ca 1m2s", "c 1m3s")
	})
}

func TestAcquireAllRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 1}, "b": {MaxTPM: 5}}})
		_, err := rl.AcquireAll(t.Context(), ratelimit.Request{Model: "a"}, ratelimit.Request{Model: "b", OutputTokens: 6})
		var limit *ratelimit.LimitError
		if !errors.Is(err, ratelimit.ErrNeverFits) || !errors.As(err, &limit) || limit.Model != "b" || limit.Decision.Model != "b" {
			t.Errorf("%v", err)
		}
		if _, err := rl.AcquireAll(t.Context(), ratelimit.Request{Model: "a", PromptTokens: -1}); !errors.Is(err, ratelimit.ErrInvalidTokens) {
			t.Errorf("%v", err)
		}
		if rs, err := rl.AcquireAll(t.Context()); err != nil || len(rs) != 0 {
			t.Errorf("%v, %v", rs, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		reserve(t, rl, "a", 0, 0)
		time.AfterFunc(time.Second, cancel)
		if _, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "b"}, ratelimit.Request{Model: "a"}); err != context.Canceled {
			t.Errorf("%v", err)
		}
		if _, err := rl.AcquireAll(ctx); err != context.Canceled {
			t.Errorf("%v", err)
		}
		if a, b := rl.Stats("a"), rl.Stats("b"); a.Waiting+b.Waiting+b.InFlight != 0 || a.RPM != 1 {
			t.Errorf("it left %+v, %+v", a, b)
		}
	})
}

// The call may tell when the provider got the request, and settle by itself. Of nested ones the
// innermost reservation is meant.
func TestReservationFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		start := time.Now()
		do := func(ctx context.Context, model string, call func(ctx context.Context)) {
			t.Helper()
			err := rl.Do(ctx, ratelimit.Request{Model: model, PromptTokens: 5}, func(ctx context.Context) (ratelimit.Usage, error) {
				call(ctx)
				return ratelimit.Usage{PromptTokens: 7}, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		do(t.Context(), "m", func(ctx context.Context) {
			time.Sleep(3 * time.Second)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			ratelimit.ReservationFrom(ctx).Arrived(time.Now())
			do(ctx, "other", func(ctx context.Context) {
				if r := ratelimit.ReservationFrom(ctx); r.Model() != "other" {
					t.Errorf("inside it is that of %q", r.Model())
				}
			})
			if r := ratelimit.ReservationFrom(ctx); r.Model() != "m" || !r.ReservedAt().Equal(start) {
				t.Errorf("outside it is that of %q", r.Model())
			}
		})
		time.Sleep(time.Minute)
		if got := rl.Stats("m").TPM; got != 7 {
			t.Errorf("a minute after the call arrived %d tokens count, want 7", got)
		}
		time.Sleep(time.Nanosecond)
		if got := rl.Stats("m").TPM; got != 0 {
			t.Errorf("then %d tokens count", got)
		}
		do(t.Context(), "own", func(ctx context.Context) { ratelimit.ReservationFrom(ctx).Commit(1, 1) })
		if got := rl.Stats("own").TPM; got != 2 {
			t.Errorf("%d tokens count after an own Commit, want 2", got)
		}
		ratelimit.ReservationFrom(t.Context()).Arrived(time.Now())
	})
}

func TestDoWithoutRoomDoesNotCall(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 5})
	err := rl.Do(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 6}, func(context.Context) (ratelimit.Usage, error) {
		t.Error("called")
		return ratelimit.Usage{}, nil
	})
	if !errors.Is(err, ratelimit.ErrNeverFits) {
		t.Error(err)
	}
}

func TestCooldown(t *testing.T) {
	for _, model := range []string{"m", "unlimited", "unknown"} {
		t.Run(model, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}, "unlimited": {}}})
				until := time.Now().Add(90 * time.Second)
				rl.Cooldown(model, until)
				rl.Cooldown(model, time.Now().Add(time.Second))
				rl.Cooldown(model, time.Now().Add(-time.Second))
				rl.Cooldown("another", time.Now().Add(time.Hour))
				d := rl.Decide(model, 1)
				if d.Allowed || d.Never || d.Code != ratelimit.DecisionCooldown || d.RetryAfter != 90*time.Second {
					t.Errorf("%+v", d)
				}
				if s := rl.Stats(model); !s.CooldownUntil.Equal(until) || s != d.Stats {
					t.Errorf("%+v, %+v", s, d.Stats)
				}
				if r, d := rl.Reserve(model, 1, 1); r != nil || d.Code != ratelimit.DecisionCooldown || rl.CanSend(model, 1) {
					t.Errorf("admitted, %+v", d)
				}
				started := time.Now()
				if _, err := rl.Acquire(t.Context(), model, 1, 1); err != nil || time.Since(started) != 90*time.Second {
					t.Errorf("%v after %v", err, time.Since(started))
				}
				if s := rl.Stats(model); !s.CooldownUntil.IsZero() {
					t.Errorf("%+v", s)
				}
				rl.Cooldown(model, time.Now().Add(time.Hour))
				time.AfterFunc(time.Second, func() { rl.Reset(model) })
				if err := rl.WaitForCapacity(t.Context(), model, 1); err != nil || time.Since(started) != 91*time.Second {
					t.Errorf("%v after %v", err, time.Since(started))
				}
				if d := rl.Decide("another", 1); d.Code != ratelimit.DecisionCooldown {
					t.Errorf("%+v", d)
				}
				rl.Reset("")
				if !rl.CanSend("another", 1) {
					t.Error("Reset of all lifts it")
				}
			})
		})
	}
}

func TestCooldownComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1, MaxInFlight: 1, MaxRPD: 9})
		rl.Cooldown("m", time.Now().Add(10*time.Second))
		if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionCooldown || d.RetryAfter != 10*time.Second {
			t.Errorf("%+v", d)
		}
		rl.Reset("m")
		reserve(t, rl, "m", 1, 1)
		rl.Cooldown("m", time.Now().Add(10*time.Second))
		if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionCooldown || d.RetryAfter != time.Minute+1 {
			t.Errorf("%+v", d)
		}
	})
}

// 200 callers at once with two seconds of patience, who would use 60 times a 60th of the quota:
// each call that the estimates leave room for gets in, and as the answers come, the others.
func TestColdStartLetsCallsInAsEstimatesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 20_000})
		admitted := make(chan bool, 200)
		began := time.Now()
		for range cap(admitted) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				r, err := rl.Acquire(ctx, "m", 80, 256)
				if err == nil {
					time.Sleep(400 * time.Millisecond)
					r.Commit(80, 253)
				}
				admitted <- err == nil
			}()
		}
		n := 0
		for range cap(admitted) {
			if <-admitted {
				n++
			}
		}
		if n != 60 {
			t.Errorf("%d calls were admitted", n)
		}
		if took := time.Since(began); took > 2400*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}
