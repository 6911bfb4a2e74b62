// Events: the class, the pool and the cost of a call.

package ratelimit_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// fairLine is what these tests look at in an event.
type fairLine struct {
	kind        ratelimit.EventKind
	class, pool string
	cost        money.Amount
}

func (w *witness) fairLines() (all []fairLine) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if e.Kind != ratelimit.EventSaved && e.Kind != ratelimit.EventQuotaChanged {
			all = append(all, fairLine{e.Kind, e.Class, e.Pool, e.Cost})
		}
	}
	w.all = nil
	return all
}

// TestEventsOfFairShares: each event of a call says its class, those of a denial by a pool the
// pool, and those with a cost the cost; nothing of an earlier event is left in a later one.
func TestEventsOfFairShares(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) {
		cfg.Pools = map[string]ratelimit.Pool{"org": {Models: []string{"free"}, Quota: ratelimit.ModelQuota{MaxInFlight: 1}}}
		cfg.Classes = map[string]ratelimit.Class{"batch": {}, "people": {Weight: 3}}
		cfg.Prices = map[string]money.Price{"free": {Input: money.USD(1), Output: money.USD(2)}}
	}, func(s *eventStage) {
		want := func(lines ...fairLine) {
			s.Helper()
			byKind := func(a, b fairLine) int { return strings.Compare(string(a.kind), string(b.kind)) }
			got := s.w.fairLines()
			slices.SortStableFunc(got, byKind) // those of two goroutines come in any order
			slices.SortStableFunc(lines, byKind)
			if !slices.Equal(got, lines) {
				s.Errorf("got\n%+v, want\n%+v", got, lines)
			}
		}
		batch := ratelimit.WithClass(s.ctx, "batch")
		first, err := s.rl.Acquire(batch, "free", 1000, 100)
		if err != nil {
			s.Fatal(err)
		}
		want(fairLine{ratelimit.EventAdmitted, "batch", "", 1200})

		people, give := context.WithCancel(ratelimit.WithClass(s.ctx, "people"))
		served := make(chan *ratelimit.Reservation)
		go func() {
			r, _ := s.rl.Acquire(s.ctx, "free", 500, 0)
			served <- r
		}()
		synctest.Wait()
		want(fairLine{ratelimit.EventQueued, "", "org", 0})
		gone := make(chan error)
		go func() {
			_, err := s.rl.Acquire(people, "free", 1, 1)
			gone <- err
		}()
		synctest.Wait()
		want(fairLine{ratelimit.EventQueued, "people", "", 0}) // in the line of its model
		give()
		s.refused(<-gone, context.Canceled)
		want(fairLine{ratelimit.EventRefused, "people", "", 0})

		time.Sleep(time.Second)
		first.Commit(100, 10)
		second := <-served
		want(fairLine{ratelimit.EventSettled, "batch", "", 120}, fairLine{ratelimit.EventAdmitted, "", "org", 500})

		_, d := s.rl.ReserveContext(batch, ratelimit.Request{Model: "free", PromptTokens: 1})
		if d.Allowed || d.Pool != "org" {
			s.Errorf("decision %+v", d)
		}
		want(fairLine{ratelimit.EventRefused, "batch", "org", 0})
		second.Cancel()
		s.rl.RecordUsage("free", 10, 0)
		s.rl.CooldownFor("m", time.Minute, ratelimit.CauseCaller)
		want(fairLine{ratelimit.EventReleased, "", "", 0}, fairLine{ratelimit.EventRecorded, "", "", 10},
			fairLine{ratelimit.EventCooldownBegan, "", "", 0})
		for _, class := range []string{"people", "none", ""} { // of which "none" is no class
			r, d := s.rl.ReserveAll(ratelimit.Request{Model: "m", Class: class})
			if d.Allowed {
				s.Errorf("%v in a cooldown", r)
			}
		}
		want(fairLine{ratelimit.EventRefused, "people", "", 0}, fairLine{ratelimit.EventRefused, "", "", 0},
			fairLine{ratelimit.EventRefused, "", "", 0})
		s.rl.Reset("m")
		want(fairLine{ratelimit.EventCooldownEnded, "", "", 0})
	})
}
