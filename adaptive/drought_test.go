package adaptive_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// meet has units pass until an instant, of which all that are refused are told 300 ms later, and
// returns how many were sent and refused.
func meet(r *adaptive.Rate, from, to time.Duration, refuses func(time.Duration) bool) (sent, refused int) {
	type late struct{ sent, back time.Duration }
	var under []late
	for at := from; at < to; at += 10 * time.Millisecond {
		for len(under) > 0 && under[0].back <= at {
			r.RefusedAt(noon.Add(at), adaptive.Refusal{Sent: noon.Add(under[0].sent)})
			under = under[1:]
		}
		if r.TakeAt(noon.Add(at), 1).OK {
			if sent++; refuses(at) {
				refused++
				under = append(under, late{at, at + 300*time.Millisecond})
			}
		}
	}
	return sent, refused
}

func always(time.Duration) bool { return true }
func never(time.Duration) bool  { return false }

// minuteRate returns a Rate that begins at 10 a second and grows no further.
func minuteRate(t *testing.T) *adaptive.Rate {
	return newRate(t, func(c *adaptive.RateConfig) {
		c.Floor, c.Start, c.Ceiling = limit.PerMinute(6), limit.PerSecond(10), limit.PerSecond(10)
	})
}

// While all is refused few units are sent, and behind it the rate is what passed in the minute.
func TestDrought(t *testing.T) {
	for _, full := range []time.Duration{15 * time.Second, 30 * time.Second, 50 * time.Second} {
		r := minuteRate(t)
		meet(r, 0, full, never)
		sent, refused := meet(r, full, time.Minute, always)
		if sent != refused || sent > 60 {
			t.Errorf("full after %v: %d sent until the minute ends", full, sent)
		}
		meet(r, time.Minute, 75*time.Second, never)
		want := full.Seconds() / 6
		if got := perSecond(r, noon.Add(75*time.Second)); got < want*0.95 || got > want*1.05 {
			t.Errorf("full after %v: then %.2f a second, want %.2f", full, got, want)
		}
	}
}

// What lasts longer than a minute is an outage, and nothing is known after it.
func TestDroughtOfAnOutage(t *testing.T) {
	r := minuteRate(t)
	meet(r, 0, 30*time.Second, never)
	meet(r, 30*time.Second, 4*time.Minute, always)
	if sent, _ := meet(r, 4*time.Minute, 5*time.Minute, always); sent > 8 {
		t.Errorf("%d sent in the last minute", sent)
	}
	if got := r.StateAt(noon.Add(5 * time.Minute)).Knee; got != 0 {
		t.Errorf("a rate of %d is known", got)
	}
}

// A token bucket that is too small for the rate is none: some pass, and the rate is what passes.
func TestNoDrought(t *testing.T) {
	r := minuteRate(t)
	meet(r, 0, 30*time.Second, never)
	tokens, last := 0.0, 30*time.Second
	meet(r, 30*time.Second, 40*time.Second, func(at time.Duration) bool {
		tokens, last = min(tokens+3*(at-last).Seconds(), 3), at
		if tokens < 1 {
			return true
		}
		tokens--
		return false
	})
	if got := perSecond(r, noon.Add(40*time.Second)); got < 2 || got > 4 {
		t.Errorf("of 3 a second %.2f are found", got)
	}
}

// A wait that the provider asks for ends with its minute, so no unit has to find that out.
func TestDroughtWithRetryAfter(t *testing.T) {
	r := minuteRate(t)
	meet(r, 0, 20*time.Second, never)
	r.RefusedAt(noon.Add(20*time.Second), adaptive.Refusal{Sent: noon.Add(19800 * time.Millisecond), RetryAfter: 40 * time.Second})
	if got, want := perSecond(r, noon.Add(20*time.Second)), 200.0/60; got < want*0.95 || got > want {
		t.Errorf("%.2f a second, want %.2f", got, want)
	}
}
