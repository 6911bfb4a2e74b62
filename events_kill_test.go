//go:build !nosqlite

// Events: another process that is killed.

package ratelimit_test

import (
	"slices"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// What a process held that was killed comes back, and none of it is told here.
func TestEventsOfAnotherProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	plan := sharedPlan{
		Path: sqlitePath(t), LeaseTTL: time.Hour, Margin: time.Hour,
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 4}},
	}
	victim := sharedStarted(t, 1, "agent", plan)[0]
	w := witnessOf(t)
	cfg := plan.config()
	cfg.Events = w
	rl := sqliteLimiterWith(t, plan.Path, cfg)
	held := reserve(t, rl, "m", 1, 0)
	for range 3 {
		victim.admitted(sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10})
	}
	victim.does(sharedOrder{Do: "commit", PromptTokens: 20})
	victim.does(sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10})
	waits := make(chan *ratelimit.Reservation)
	go func() {
		r, err := rl.Acquire(t.Context(), "m", 2, 0)
		if err != nil {
			t.Error(err)
		}
		waits <- r
	}()
	sharedEventually(t, "a call stands in line", func() bool { return rl.Stats("m").Waiting == 1 })
	victim.kill()
	(<-waits).Commit(3, 0)
	sharedEventually(t, "the slots come back", func() bool { return rl.Stats("m").InFlight == 1 })
	w.wantOpen(1)
	held.Cancel()
	w.wantOpen(0)
	var kinds []ratelimit.EventKind
	for _, is := range w.ofCalls() {
		kinds = append(kinds, is.Kind)
	}
	want := []ratelimit.EventKind{
		ratelimit.EventAdmitted, ratelimit.EventQueued, ratelimit.EventAdmitted, ratelimit.EventSettled, ratelimit.EventReleased,
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("told %v, want %v", kinds, want)
	}
	w.closes(rl)
}
