// The index of the models without a quota of their own, under "*" and patterns, and the queue for
// their places: held against a look at everything, and by how much they look at.

package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

func unlistedLimiter(t testing.TB, most int, quotas map[string]ModelQuota) *RateLimiter {
	t.Helper()
	rl, err := NewWithConfig(Config{FilePath: filepath.Join(t.TempDir(), "state.yaml"), Quotas: quotas, MaxModels: most})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// checkUnlistedLocked compares the index with what a look at all models says.
func (rl *RateLimiter) checkUnlistedLocked() error {
	u := rl.unlistedLocked()
	if u.state == nil || u.states != len(rl.State) || u.listed != len(rl.Quotas) || u.every != rl.Quotas[everyModel] {
		return nil
	}
	n := 0
	instant := rl.clock.Sync()
	for name, stats := range rl.State {
		w := stats.window
		if rl.isListedRLocked(name) {
			if w.unlisted != nil {
				return fmt.Errorf("%s has a quota, and is among those without", name)
			}
			continue
		}
		n++
		m := w.unlisted
		look := u.lookLocked(instant, nil)
		if m == nil || m.Name != name || u.index.DueAt(m, &look) == never && !u.isAttendedLocked(w) {
			return fmt.Errorf("%s is not indexed: %+v", name, m)
		}
		use := u.useLocked(rl.windowLocked(name, stats, instant))
		at := use.IdleAt
		if use.DayEnd != 0 {
			at = max(at, rl.clock.Instant(use.DayEnd))
		}
		if bound := u.index.DueAt(m, &look); bound > max(at, instant) {
			return fmt.Errorf("%s is idle at %d, and looked at at %d (now %d)", name, at, bound, instant)
		}
	}
	if n != u.index.Len() {
		return fmt.Errorf("%d models, %d in the index", n, u.index.Len())
	}
	return nil
}

// checkWaitersLocked looks for one who waits and could go.
func (rl *RateLimiter) checkWaitersLocked() error {
	queued := 0
	for _, w := range rl.linesLocked().waitersLocked() {
		if w.rank > 0 {
			queued++
			if !rl.lines.forPlace.waiters.Contains(w) {
				return errors.New("a waiter is not where it says")
			}
		}
		if w.isNext(nil) {
			if b := rl.decideBatchLocked(w.requests); b.Allowed {
				return fmt.Errorf("%+v waits, and could go: needs %d of %d, rank %d; %d models", w.requests, w.needs, rl.mostModels(), w.rank, rl.unlisted.index.Len())
			}
		}
	}
	if queued != rl.lines.forPlace.waiters.Len() {
		return fmt.Errorf("%d wait for a place, %d do in all", rl.lines.forPlace.waiters.Len(), queued)
	}
	return nil
}

func TestPlacesAgreeWithALookAtAllModels(t *testing.T) {
	seeds := uint64(max(200/racetest.Factor, 37))
	if os.Getenv("RATELIMIT_LONG") != "" {
		seeds = 6000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playPlaces(t, rand.New(rand.NewPCG(seed, 33))) })
		})
	}
}

func playPlaces(t *testing.T, random *rand.Rand) {
	everies := []ModelQuota{{MaxRPM: 2}, {MaxRPM: 2, MaxRPD: 4}, {MaxTPD: 9, DayZone: "America/New_York"}, {MaxRPM: 3, MaxInFlight: 1}, {MaxInFlight: 1, MaxRPD: 5}, {}}
	most := 1 + random.IntN(5)
	rl := unlistedLimiter(t, most, map[string]ModelQuota{"*": everies[random.IntN(len(everies))], "own": {MaxRPM: 3}})
	cover := func() string { return []string{"*", "*", "a*", "*b", "*c*"}[random.IntN(5)] } // each of one model
	for range random.IntN(3) {
		rl.SetQuota(cover(), everies[random.IntN(len(everies))])
	}
	name := func() string { return string(rune('a' + random.IntN(9))) }
	draw := func() (reqs []Request) {
		for range 1 + random.IntN(3) {
			reqs = append(reqs, Request{Model: name(), PromptTokens: 1})
		}
		return reqs
	}
	var open Reservations
	results := make(chan Reservations, 1000)
	ctx, cancelAll := context.WithCancel(context.Background())
	defer synctest.Wait()
	defer cancelAll()
	var leave []context.CancelFunc
	for range 150 {
		op := random.IntN(16)
		switch op {
		case 0, 1:
			rs, _ := rl.ReserveAll(draw()...)
			open = append(open, rs...)
		case 2:
			r, _ := rl.Reserve(name(), 1, 1)
			open = append(open, r)
		case 3:
			rl.RecordUsage(name(), 1, 1)
		case 4, 5, 6:
			if n := len(open); n > 0 {
				i := random.IntN(n)
				switch r := open[i]; random.IntN(4) {
				case 0:
					r.Cancel()
				case 1:
					r.Arrived(time.Now().Add(-time.Duration(random.Int64N(int64(time.Minute)))))
					fallthrough
				default:
					r.Commit(random.IntN(3), 1)
				}
				open = append(open[:i], open[i+1:]...)
			}
		case 7, 8:
			time.Sleep(time.Duration(random.Int64N(int64(25 * time.Second))))
		case 9:
			if random.IntN(3) == 0 {
				time.Sleep(time.Duration(random.Int64N(int64(20 * time.Hour))))
			}
		case 10, 11, 12:
			one, leaves := context.WithCancel(ctx)
			leave = append(leave, leaves)
			reqs, charges := draw(), random.IntN(4) > 0
			go func() {
				if !charges {
					rl.WaitForCapacity(one, reqs[0].Model, 1)
					return
				}
				rs, _ := rl.AcquireAll(one, reqs...)
				results <- rs
			}()
		case 13:
			if n := len(leave); n > 0 {
				leave[random.IntN(n)]()
			}
		case 14:
			switch random.IntN(6) {
			case 0:
				rl.Reset(name())
			case 1:
				rl.SetQuota(name(), ModelQuota{MaxRPM: 2})
			case 2:
				rl.SetQuota(cover(), everies[random.IntN(len(everies))])
			case 3:
				if len(rl.Quotas) > 2 && random.IntN(2) == 0 {
					rl.mu.Lock()
					for model := range rl.Quotas { // as unlearnLocked does
						if model != "own" && model != "*" {
							delete(rl.Quotas, model)
							rl.unlistedLocked().relistLocked(model)
							rl.requoteLocked()
							break
						}
					}
					rl.mu.Unlock()
				}
			case 4:
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
			case 5:
				if err := rl.Load(); err != nil {
					t.Fatal(err)
				}
			}
		case 15:
			rl.prune()
		}
		synctest.Wait()
		for len(results) > 0 {
			open = append(open, <-results...)
		}
		rl.mu.Lock()
		err := errors.Join(rl.checkUnlistedLocked(), rl.checkWaitersLocked())
		rl.mu.Unlock()
		if err != nil {
			t.Fatalf("after a step of kind %d: %v; %+v", op, err, rl.Quotas["*"])
		}
	}
	rl.Close()
}

// looksAt counts the models that a call looks at.
func looksAt(rl *RateLimiter, call func()) (n int) {
	const unseen = -1
	rl.mu.Lock()
	for _, stats := range rl.State {
		stats.window.quotaVersion = unseen
	}
	rl.mu.Unlock()
	call()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for _, stats := range rl.State {
		if stats.window.quotaVersion != unseen {
			n++
		}
	}
	return n
}

func TestCallsLookAtFewModels(t *testing.T) {
	const many = 12_000
	const few = 6
	every := map[string]ModelQuota{"*": {MaxRPM: 5, MaxTPM: 1000}, "own": {MaxRPM: 100}, "busy": {MaxRPM: 1}}
	name := func(i int) string { return fmt.Sprint("m", i) }
	reserveAndCommit := func(rl *RateLimiter, model string) func() {
		return func() {
			r, _ := rl.Reserve(model, 1, 1)
			r.Commit(2, 1)
		}
	}
	tests := []struct {
		name  string
		most  int
		every ModelQuota
		calls func(rl *RateLimiter) []func() // each of which looks at few
	}{
		{"while somebody waits for another model", many / 2, ModelQuota{}, func(rl *RateLimiter) []func() {
			rl.RecordUsage("busy", 1, 1)
			go rl.Acquire(context.Background(), "busy", 1, 1)
			synctest.Wait()
			return []func(){reserveAndCommit(rl, "own"), reserveAndCommit(rl, name(1)), func() { rl.Reset("own") }}
		}},
		{"while somebody waits for a place", many, every["*"], func(rl *RateLimiter) []func() {
			go rl.Acquire(context.Background(), "new", 1, 1)
			synctest.Wait()
			return []func(){reserveAndCommit(rl, "own"), reserveAndCommit(rl, name(1)), func() { rl.RecordUsage(name(0), 1, 1) }}
		}},
		{"new names, where all are busy", many, every["*"], func(rl *RateLimiter) []func() {
			return []func(){
				func() { rl.Decide("new", 1) },
				reserveAndCommit(rl, name(7)),
				func() { rl.Decide("new", 1) },
				func() { rl.ReserveAll(Request{Model: "x"}, Request{Model: "y"}) },
				func() { rl.RecordUsage("new", 1, 1) },
			}
		}},
		{"new names, where all are idle", many, every["*"], func(rl *RateLimiter) []func() {
			time.Sleep(time.Hour)
			return []func(){
				func() { rl.Decide("new", 1) },
				reserveAndCommit(rl, "new"),
				func() { rl.RecordUsage("newer", 1, 1) },
				func() { rl.ReserveAll(Request{Model: "x"}, Request{Model: "y"}) },
			}
		}},
		{"a new name, where all were used again", many, every["*"], func(rl *RateLimiter) []func() {
			for range 3 {
				time.Sleep(20 * time.Second)
				for i := range many {
					rl.RecordUsage(name(i), 1, 1)
				}
			}
			time.Sleep(20 * time.Second)
			return []func(){func() { rl.Decide("new", 1) }, func() { rl.Decide("new", 1) }}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quotas := maps.Clone(every)
				quotas["*"] = tt.every
				rl := unlistedLimiter(t, tt.most, quotas)
				for i := range many {
					rl.RecordUsage(name(i), 1, 1)
				}
				rl.Decide("first", 1) // which makes the index
				for i, call := range tt.calls(rl) {
					if n := looksAt(rl, call); n > few {
						t.Errorf("call %d looks at %d models", i, n)
					}
				}
				rl.Close()
			})
		})
	}
}
