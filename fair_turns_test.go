// Turns: how long a call of one flow waits behind those of others, whoever leaves unserved.

package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

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
