package adaptive_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
)

// A call that is rejected counts as the part of a request that RejectionWeight says.
func TestThrottleRejectionWeight(t *testing.T) {
	for weight, thousandths := range map[int]int64{0: 100, 1: 1, 333: 333, 1000: 1000} {
		th := newThrottle(t, adaptive.ThrottleConfig{RejectionWeight: weight})
		sent, rejected, accepted := int64(0), int64(0), int64(0)
		for range 5000 {
			if !th.AllowAt(noon) {
				rejected++
			} else if sent++; sent%10 == 0 {
				accepted++
				th.AcceptedAt(noon)
			} else {
				th.FailedAt(noon)
			}
			requests := 1000*sent + thousandths*rejected
			if got, want := int64(th.RejectionAt(noon)), 1000*max(requests-2000*accepted, 0)/(requests+1000); got != want {
				t.Fatalf("weight %d, %d sent, %d rejected: %d, want %d", weight, sent, rejected, got, want)
			}
		}
		if rejected < 1000 {
			t.Errorf("weight %d: only %d are rejected", weight, rejected)
		}
	}
}

// In an outage a call passes at least every 5 seconds, and few more do. When the provider is
// back, nobody sends it all at once; but all do soon after, however many calls come.
func TestThrottleOutage(t *testing.T) {
	for perSecond, c := range map[int]struct {
		passed, first int           // in the outage, and in the first 5 seconds after it
		back          time.Duration // until all pass
	}{1: {145, 5, 90 * time.Second}, 50: {250, 25, time.Minute}, 500: {450, 50, 75 * time.Second}} {
		th := newThrottle(t, adaptive.ThrottleConfig{})
		now, last, passed := noon, noon, 0
		every := time.Second / time.Duration(perSecond)
		for now.Before(noon.Add(10 * time.Minute)) {
			if now = now.Add(every); th.AllowAt(now) {
				if gap := now.Sub(last); gap > 5*time.Second+every {
					t.Fatalf("%d a second: nothing passed for %v", perSecond, gap)
				}
				last = now
				passed++
				th.FailedAt(now)
			}
		}
		back, first := now, 0
		for th.RejectionAt(now) > 0 && now.Before(back.Add(10*time.Minute)) {
			if now = now.Add(every); th.AllowAt(now) {
				th.AcceptedAt(now)
				if now.Before(back.Add(5 * time.Second)) {
					first++
				}
			}
		}
		if took := now.Sub(back); passed > c.passed || first > c.first || took < 20*time.Second || took > c.back {
			t.Errorf("%d a second: %d passed in the outage, %d in 5 s after it, all %v after it", perSecond, passed, first, took)
		}
	}
}

// A provider that accepts some calls, whatever their number, is not taken for dead.
func TestThrottlePartOfTheCalls(t *testing.T) {
	for _, c := range []struct{ weight, every, least, most int }{
		{0, 3, 60, 66}, {0, 5, 30, 36}, {0, 10, 8, 14}, {0, 50, 0, 3}, {1000, 3, 0, 3},
	} {
		th := newThrottle(t, adaptive.ThrottleConfig{RejectionWeight: c.weight})
		now, sent, counted := noon, 0, 0
		for i := range 60_000 { // 20 minutes
			if now = now.Add(20 * time.Millisecond); th.AllowAt(now) {
				if sent++; sent%c.every == 0 {
					th.AcceptedAt(now)
				} else {
					th.FailedAt(now)
				}
				if i >= 30_000 {
					counted++
				}
			}
		}
		if share := counted / 300; share < c.least || share > c.most {
			t.Errorf("weight %d, 1 of %d accepted: %d %% are sent, want %d to %d", c.weight, c.every, share, c.least, c.most)
		}
	}
}
