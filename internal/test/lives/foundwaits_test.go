package lives

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// waitFor has a call wait for m, and returns a channel that says when it passes.
func waitFor(t *testing.T, h *house, tokens int) (passes <-chan time.Time) {
	passed := make(chan time.Time, 1)
	go func() {
		r, err := h.rl.Acquire(t.Context(), "m", tokens, 0)
		if err != nil {
			t.Error(err)
		}
		passed <- time.Now()
		r.Commit(tokens, 0)
	}()
	synctest.Wait()
	return passed
}

func repriced(t *testing.T, h *house) {
	reserve(t, h, "m", 9).Commit(9, 0)
	passes := waitFor(t, h, 2)
	if n := len(passes); n != 0 {
		t.Fatal("a call passes that the budget has no room for")
	}
	if err := h.rl.SetPrice("m", money.Price{Input: money.USD(500_000)}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if n := len(passes); n != 1 {
		t.Error("the call does not pass at the new price")
	}
}

// One that goes because of the new price makes room for one behind, which asks at that, too.
func repricedTogether(t *testing.T, h *house) {
	reserve(t, h, "m", 9).Commit(9, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ends [2]error
	for i, tokens := range []int{3, 1} {
		go func() { _, ends[i] = h.rl.Acquire(ctx, "m", tokens, 0) }()
		synctest.Wait()
		if i == 0 && ends[0] != nil {
			t.Fatal(ends[0])
		}
	}
	if err := h.rl.SetPrice("m", money.Price{Input: money.USD(4_000_000)}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if !errors.Is(ends[0], ratelimit.ErrNeverFits) {
		t.Errorf("the call that can never pass: %v", ends[0])
	}
	cancel()
	synctest.Wait()
	if !errors.Is(ends[1], context.Canceled) {
		t.Errorf("the call behind it passes at the old price: %v", ends[1])
	}
}

// A model that was added up under "other" has an entry of its own once it has room for it.
func namedLater(t *testing.T, h *house) {
	for _, model := range []string{"a", "b", "c"} {
		reserve(t, h, model, 1).Commit(1, 0)
		time.Sleep(25 * time.Hour)
		h.rl.Stats(model)
	}
	h.rl.SetQuota("c", ratelimit.ModelQuota{MaxRPM: 5})
	h.rl.RecordUsage("c", 1, 0)
	if is := h.rl.Audit().Models; is["other"].Settled.Calls != 1 || is["c"].Recorded.Calls != 1 {
		t.Errorf("the audit has %+v", is)
	}
}

func keepsItsGap(t *testing.T, h *house) {
	r := reserve(t, h, "m", 1)
	time.Sleep(10 * time.Second)
	r.Arrived(time.Now())
	r.Cancel()
	h.rl.Stats("m")
	if d := h.rl.Decide("m", 1); d.Allowed || d.RetryAfter.Round(time.Millisecond) != 5*time.Second {
		t.Errorf("10 s after a call that keeps others waiting for 15 s: %+v", d)
	}
}

func keepsForTheReset(t *testing.T, h *house) {
	held := reserve(t, h, "m", 1)
	rs, d := h.rl.ReserveAll(ratelimit.Request{Model: "m", Class: "first"})
	if rs == nil {
		t.Fatal(d)
	}
	rs[0].Cancel()
	h.rl.Reset("m")
	passes := waitFor(t, h, 1)
	h.rl.SetQuota("other", ratelimit.ModelQuota{MaxRPM: 5})
	synctest.Wait()
	if len(passes) != 0 {
		t.Error("the call that waits takes the slot that is kept for a class")
	}
	time.Sleep(61 * time.Second)
	synctest.Wait()
	if len(passes) != 1 {
		t.Error("the call does not pass when nothing is kept any more")
	}
	runtime.KeepAlive(held)
}

func keepsThePlace(t *testing.T, h *house) {
	reserve(t, h, "own", 1).Commit(1, 0)
	time.Sleep(23 * time.Hour)
	reserve(t, h, "a", 1).Commit(1, 0)
	h.rl.RemoveQuota("own")
	time.Sleep(time.Hour + 2*time.Minute)
	h.rl.Stats("own")
	if rs, d := h.rl.ReserveAll(ratelimit.Request{Model: "b"}, ratelimit.Request{Model: "a"}); rs == nil {
		t.Fatal(d)
	}
	if a, b := h.rl.Stats("a").RPM, h.rl.Stats("b").RPM; a != 1 || b != 0 {
		t.Errorf("%d requests of the model that has the place are counted, and %d of another", a, b)
	}
}
