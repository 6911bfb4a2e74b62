// Wake-ups: whoever waits is served as soon as there is room, and heads that wait for long.

package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// A waiter that both its model and its pool deny is served when its model lets it pass, if the pool
// has had room before: by the end of a cooldown, or when tokens of the model leave its minute.
func TestFairModelOpensAfterItsPool(t *testing.T) {
	cfg := ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100}, "other": {}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 200}}},
	}
	for _, tt := range []struct {
		name string
		deny func(rl *ratelimit.RateLimiter) // 30 s before the model opens
	}{
		{"cooldown", func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now().Add(30*time.Second)) }},
		{"tokens", func(rl *ratelimit.RateLimiter) {
			rl.RecordUsage("m", 60, 0)
			time.Sleep(30*time.Second + 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onPairs(t, cfg, func(t *testing.T, waits, other *ratelimit.RateLimiter, late time.Duration) {
				tt.deny(other)
				open, _ := other.Reserve("other", 140, 0)
				time.AfterFunc(10*time.Second, open.Cancel)
				time.Sleep(late) // until the one that waits has heard of it
				began := time.Now().Add(-late)
				r, err := waits.Acquire(t.Context(), "m", 80, 0)
				if err != nil {
					t.Fatal(err)
				}
				if w := time.Since(began); w < 30*time.Second || w > 30*time.Second+late {
					t.Errorf("the model opens after 30 s, and the call was served after %v", w)
				}
				r.Commit(80, 0)
			})
		})
	}
}

// A waiter that is denied for the day keeps nobody of another class waiting, neither in the line of
// its model nor in that of its pool, and neither who waits already nor who comes.
func TestFairHeadForTheDayHoldsUpNoOtherClass(t *testing.T) {
	day, none := ratelimit.ModelQuota{MaxTPD: 100}, ratelimit.ModelQuota{}
	minute := ratelimit.ModelQuota{MaxTPD: 100, MaxRPM: 1}
	for _, tt := range []struct {
		name        string
		quota, pool ratelimit.ModelQuota
		by          string // the model of the other class
		after       time.Duration
	}{
		{"quota", day, none, "m", 0},
		{"pool", none, day, "m", 0},
		{"pool, another model", none, day, "n", 0},
		{"quota, a minute", minute, none, "m", time.Minute + 1},
		{"pool, a minute", none, minute, "m", time.Minute + 1},
		{"pool, another model, a minute", none, minute, "n", time.Minute + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onPairs(t, ratelimit.Config{
				Classes: map[string]ratelimit.Class{"x": {}, "y": {}},
				Quotas:  map[string]ratelimit.ModelQuota{"m": tt.quota, "n": {}},
				Pools:   map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: tt.pool}},
			}, func(t *testing.T, waits, other *ratelimit.RateLimiter, late time.Duration) {
				other.RecordUsage("m", 50, 0)
				began := time.Now()
				x, y := &fairHall{T: t, rl: waits}, &fairHall{T: t, rl: other}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := x.come(ctx, ratelimit.Request{Model: "m", PromptTokens: 60, Class: "x"})
				time.Sleep(late)
				second := y.come(t.Context(), ratelimit.Request{Model: tt.by, PromptTokens: 10, Class: "y"})
				time.Sleep(max(tt.after-late, 0))
				same := x.come(ctx, ratelimit.Request{Model: "m", PromptTokens: 5, Class: "x"})
				time.Sleep(late)
				if c := y.now(second); c.real == nil || c.served.Sub(began) > tt.after+2*late {
					t.Errorf("a call of another class behind it is served after %v, want %v", c.served.Sub(began), tt.after)
				}
				time.Sleep(time.Minute)
				if x.now(first).returned || x.now(same).returned {
					t.Error("a call of its own class is served before it, or it is")
				}
				cancel()
				synctest.Wait()
				runtime.KeepAlive([]any{x, y})
			})
		})
	}
}

// The line of a pool is first come, first served, also where several calls of one model pass at
// once.
func TestFairPoolServesInTurnWhenItOpensForSeveral(t *testing.T) {
	for _, tt := range []struct {
		name   string
		models []string // of the calls, in the order of their arrival; two of one call are one word
		want   []int
	}{
		{"one model after another", []string{"a", "a", "b"}, []int{0, 1}},
		{"one by one", []string{"a", "b", "a", "b"}, []int{0, 1}},
		{"a call of two models", []string{"bc", "c", "b", "b", "a"}, []int{0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := ratelimit.Config{
				Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}, "c": {}},
				Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}}},
			}
			onPairs(t, cfg, func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration) {
				other.RecordUsage("a", 100, 0)
				time.Sleep(late)
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var served []int
				for i, models := range tt.models {
					var reqs []ratelimit.Request
					for _, model := range models {
						reqs = append(reqs, ratelimit.Request{Model: string(model), PromptTokens: 50 / len(models)})
					}
					go func() {
						rs, err := rl.AcquireAll(ctx, reqs...)
						if err != nil {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						served = append(served, i)
						for _, r := range rs {
							r.Commit(50/len(models), 0)
						}
					}()
					synctest.Wait()
				}
				time.Sleep(time.Minute + 1)
				synctest.Wait()
				mu.Lock()
				slices.Sort(served)
				if !slices.Equal(served, tt.want) {
					t.Errorf("the pool has room for two calls, and %v were served, want %v", served, tt.want)
				}
				mu.Unlock()
				cancel()
				synctest.Wait()
			})
		})
	}
}

// Who is next in a pool that opens for several calls is told by its own line, whatever the order in
// another pool that keeps nobody: there the flow of the call for "c" has had its turn. (Over a
// store a call has one turn for all its lines.)
func TestFairPoolThatKeepsNobodyOrdersNobody(t *testing.T) {
	cfg := ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}, "c": {MaxInFlight: 1}},
		Pools: map[string]ratelimit.Pool{
			"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 1000}},
			"two": {Models: []string{"a", "b"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		h := newFairHall(t, cfg)
		h.rl.RecordUsage("a", 100, 0)
		busy, d := h.rl.Reserve("c", 1, 0)
		if !d.Allowed {
			t.Fatal(d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, req := range []ratelimit.Request{
			{Model: "c", PromptTokens: 1, Flow: "f"},
			{Model: "b", PromptTokens: 50, Flow: "g"}, {Model: "b", PromptTokens: 40, Flow: "g"},
			{Model: "a", PromptTokens: 35, Flow: "f"},
		} {
			h.come(ctx, req)
		}
		time.Sleep(time.Minute + 1)
		for i, want := range []bool{false, true, false, true} {
			if c := h.now(h.calls[i]); !c.served.IsZero() != want {
				t.Errorf("call %d is served: %t", i, !want)
			}
		}
		cancel()
		synctest.Wait()
		busy.Cancel()
	})
}

// A pool that opens for one call lets one in, also where calls of several models wait for it.
func TestFairPoolThatOpensAdmitsNoMoreThanItsLimit(t *testing.T) {
	cfg := ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}, "c": {}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}}},
	}
	onPairs(t, cfg, func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration) {
		other.RecordUsage("a", 100, 0)
		time.Sleep(late)
		ctx, cancel := context.WithCancel(t.Context())
		for i, model := range []string{"a", "b", "c", "a", "b", "c"} {
			by := []*ratelimit.RateLimiter{rl, other}[i%2]
			go func() {
				if r, err := by.AcquireAny(ctx, ratelimit.AnyOptions{}, ratelimit.Request{Model: model, PromptTokens: 80}); err == nil {
					r.Commit(80, 0)
				}
			}()
			synctest.Wait()
		}
		for range 6 {
			time.Sleep(time.Minute + late + 1)
			synctest.Wait()
			if s := rl.PoolStats("p"); s.TPM != 80 {
				t.Errorf("the pool of 100 has %d", s.TPM)
			}
		}
		cancel()
		synctest.Wait()
	})
}

// A waiter that one of its pools lets pass keeps nobody waiting there while it waits for another
// pool, from the moment on at which the first opens.
func TestFairWaiterOfTwoPools(t *testing.T) {
	pool := func(models ...string) ratelimit.Pool {
		return ratelimit.Pool{Models: models, Quota: ratelimit.ModelQuota{MaxTPM: 100}}
	}
	cfg := ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}, "c": {}},
		Pools:  map[string]ratelimit.Pool{"first": pool("a", "b"), "later": pool("a", "c")},
	}
	onPairs(t, cfg, func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration) {
		rl.RecordUsage("b", 100, 0)
		time.Sleep(30 * time.Second)
		other.RecordUsage("c", 100, 0)
		time.Sleep(late)
		h, o := &fairHall{T: t, rl: rl}, &fairHall{T: t, rl: other}
		both := h.come(t.Context(), ratelimit.Request{Model: "a", PromptTokens: 80})
		time.Sleep(late)
		one := o.come(t.Context(), ratelimit.Request{Model: "b", PromptTokens: 10})
		time.Sleep(time.Minute + 1)
		for _, tt := range []struct {
			call fairCall
			want time.Duration
		}{{o.now(one), 30*time.Second + 1}, {h.now(both), time.Minute + 1}} {
			if w := tt.call.served.Sub(tt.call.came); tt.call.real == nil || w > tt.want || w < tt.want-2*late {
				t.Errorf("a call of %s is served after %v, want %v", tt.call.req.Model, w, tt.want)
			}
		}
		runtime.KeepAlive([]any{h, o})
	})
}

// A call that passes without a wait, while others wait, is charged to its class: nobody starves
// because of calls of a class ahead that come one by one.
func TestFairCallsThatPassAreServices(t *testing.T) {
	cfg := ratelimit.Config{
		Classes: map[string]ratelimit.Class{"ahead": {Ahead: true}},
		Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100}, "n": {}},
		Pools:   map[string]ratelimit.Pool{"p": {Models: []string{"n"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}}},
	}
	ahead := ratelimit.WithClass(context.Background(), "ahead")
	for how, call := range map[string]func(rl *ratelimit.RateLimiter, model string) ratelimit.Reservations{
		"Acquire": func(rl *ratelimit.RateLimiter, model string) ratelimit.Reservations {
			ctx, cancel := context.WithTimeout(ahead, time.Nanosecond)
			defer cancel()
			r, _ := rl.Acquire(ctx, model, 10, 0)
			return ratelimit.Reservations{r}
		},
		"ReserveContext": func(rl *ratelimit.RateLimiter, model string) ratelimit.Reservations {
			rs, _ := rl.ReserveContext(ahead, ratelimit.Request{Model: model, PromptTokens: 10})
			return rs
		},
		"ReserveAll": func(rl *ratelimit.RateLimiter, model string) ratelimit.Reservations {
			rs, _ := rl.ReserveAll(ratelimit.Request{Model: model, PromptTokens: 4, Class: "ahead"}, ratelimit.Request{Model: model, PromptTokens: 6})
			return rs
		},
	} {
		for _, model := range []string{"m", "n"} {
			t.Run(how+" "+model, func(t *testing.T) {
				onPairs(t, cfg, func(t *testing.T, waits, other *ratelimit.RateLimiter, late time.Duration) {
					h := &fairHall{T: t, rl: waits}
					waits.RecordUsage(model, 50, 0)
					low, passed := h.come(t.Context(), ratelimit.Request{Model: model, PromptTokens: 90}), 0
					for h.now(low).real == nil && time.Since(low.came) < time.Hour {
						rs := call(other, model)
						for _, r := range rs {
							if r != nil {
								r.Commit(10/len(rs), 0)
								passed++
							}
						}
						time.Sleep(6500 * time.Millisecond)
					}
					if w := time.Since(low.came); passed == 0 || w > 5*time.Minute {
						t.Errorf("%d calls of the class ahead pass, and the other waits for %v", passed, w)
					}
					runtime.KeepAlive(h)
				})
			})
		}
	}
}

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
		{name: "spend of ten minutes", quota: ratelimit.ModelQuota{MaxSpendPerTenMinutes: 1000 * dollars}},
		{name: "tokens of the month", quota: ratelimit.ModelQuota{MaxTokensPerMonth: 1000}},
		{name: "a pool's month", pool: ratelimit.ModelQuota{MaxTokensPerMonth: 1000}},
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
				onPairs(t, l.config(), func(t *testing.T, first, second *ratelimit.RateLimiter, _ time.Duration) {
					l.smallPasses(t, first, second, class)
				})
			})
		}
	}
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
