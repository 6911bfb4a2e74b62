package adaptive_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// grown returns how long a Rate that is used takes to grow.
func grown(t *testing.T, r *adaptive.Rate, now time.Time) time.Duration {
	t.Helper()
	before, begin := perSecond(r, now), now
	for perSecond(r, now) <= before {
		if now = use(r, now, 10*time.Millisecond); now.After(begin.Add(time.Minute)) {
			t.Fatal("it does not grow in a minute")
		}
	}
	return now.Sub(begin)
}

// A window with a refusal is not clean, also if the refusal lowers nothing.
func TestWindowWithRefusal(t *testing.T) {
	r := newRate(t, startAt(100))
	r.RefusedAt(noon, adaptive.Refusal{})
	now := use(r, noon, 1900*time.Millisecond)
	if r.RefusedAt(now, adaptive.Refusal{}) {
		t.Fatal("a refusal within the cool-down lowered the rate")
	}
	if took := grown(t, r, now); took < 2*time.Second {
		t.Errorf("it grows %v after a refusal", took)
	}
}

// A refusal that opens a gate begins the window behind the gate.
func TestWindowBehindGate(t *testing.T) {
	r := newRate(t, startAt(100))
	r.RefusedAt(noon, adaptive.Refusal{RetryAfter: 10 * time.Second})
	if took := grown(t, r, noon); took < 12*time.Second {
		t.Errorf("it grows %v after a refusal with a gate of 10 s", took)
	}
}

// A window is no shorter than refusals take to come back.
func TestWindowAndLag(t *testing.T) {
	for lag, most := range map[time.Duration]time.Duration{time.Second: 2510 * time.Millisecond, 8 * time.Second: 10100 * time.Millisecond} {
		r := newRate(t, startAt(100))
		r.RefusedAt(noon, adaptive.Refusal{Sent: noon.Add(-lag)})
		if took := grown(t, r, noon); took < max(lag, 2*time.Second) || took > most {
			t.Errorf("refusals after %v: it grows after %v", lag, took)
		}
	}
}

// While nothing is known a window needs one unit, else 10 or 5 seconds.
func TestWindowUnits(t *testing.T) {
	r := newRate(t, startAt(2))
	if took := grown(t, r, noon); took > 3*time.Second {
		t.Errorf("unknown, it grows after %v", took)
	}
	r = newRate(t, startAt(3))
	r.RefusedAt(noon, adaptive.Refusal{})
	if took := grown(t, r, noon); took < 3*time.Second || took > 4*time.Second {
		t.Errorf("10 units of 3 a second: it grows after %v", took)
	}
	r = newRate(t, func(c *adaptive.RateConfig) { c.Floor, c.Start = limit.PerMinute(6), limit.PerSecond(1) })
	r.RefusedAt(noon, adaptive.Refusal{})
	if took := grown(t, r, noon); took < 5*time.Second || took > 7*time.Second {
		t.Errorf("1 a second: it grows after %v", took)
	}
}

// The unit that comes after a refusal does not make the window clean: nobody knows yet what
// becomes of it.
func TestWindowWithoutUnits(t *testing.T) {
	r := newRate(t, func(c *adaptive.RateConfig) { c.Floor = limit.PerMinute(1) })
	before := perSecond(r, noon)
	r.TakeAt(noon, 1)
	r.RefusedAt(noon.Add(time.Second), adaptive.Refusal{})
	if !r.TakeAt(noon.Add(61*time.Second), 1).OK || perSecond(r, noon) != before {
		t.Errorf("it is %v a second, and was %v", perSecond(r, noon), before)
	}
	if r.TakeAt(noon.Add(122*time.Second), 1); perSecond(r, noon) <= before {
		t.Error("the next unit did not raise it")
	}
}

// Clients with different seeds do not grow together.
func TestWindowJitter(t *testing.T) {
	times := map[time.Duration]bool{}
	for seed := range uint64(10) {
		r := newRate(t, func(c *adaptive.RateConfig) { c.Seed, c.Start = seed+1, limit.PerSecond(100) })
		times[grown(t, r, noon)] = true
	}
	if len(times) < 5 {
		t.Errorf("10 seeds grow at %d times: %v", len(times), times)
	}
}

// What is restored has a window of its own.
func TestWindowAfterRestore(t *testing.T) {
	r := newRate(t, startAt(100))
	now := use(r, noon, 1900*time.Millisecond)
	r.Restore(adaptive.RateState{Units: 50e9, At: now.UnixNano()}, now)
	if took := grown(t, r, now); took < 2*time.Second {
		t.Errorf("it grows %v after Restore", took)
	}
}

// Units that have passed keep their place in the burst when the rate changes, also if the clock
// was set back by decades.
func TestRateChangeKeepsTheBurst(t *testing.T) {
	r := newRate(t, func(c *adaptive.RateConfig) { c.Burst, c.Start = 4, limit.PerSecond(100) })
	r.TakeAt(noon, 3)
	r.RefusedAt(noon, adaptive.Refusal{})
	if d := r.TakeAt(noon, 0); d.Remaining != 1 || d.ResetAfter.Round(time.Microsecond) != 31579*time.Microsecond {
		t.Errorf("3 of 4 at 95 a second: %+v", d)
	}
	r.TakeAt(noon, 1)
	back := noon.AddDate(-70, 0, 0)
	r.RefusedAt(back, adaptive.Refusal{})
	if d := r.TakeAt(back, 1); d.OK || d.RetryAfter < noon.Sub(back) {
		t.Errorf("70 years back: %+v", d)
	}
	if d := r.TakeAt(noon, 1); d.OK || d.RetryAfter > 20*time.Millisecond {
		t.Errorf("then: %+v", d)
	}
}
