package adaptive_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
)

// crowdRate returns a Rate that has found 10 a second, and when that was.
func crowdRate(t *testing.T) (*adaptive.Rate, time.Duration) {
	r := newRate(t, func(c *adaptive.RateConfig) { c.Floor.Count, c.Floor.Per = 1, 10*time.Second })
	tokens, last := 1.0, time.Duration(0)
	meet(r, 0, 5*time.Minute, func(at time.Duration) bool {
		tokens, last = min(tokens+10*(at-last).Seconds(), 2), at
		if tokens < 1 {
			return true
		}
		tokens--
		return false
	})
	if got := perSecond(r, noon.Add(5*time.Minute)); got < 9 || got > 11 {
		t.Fatalf("of 10 a second %.2f are found", got)
	}
	return r, 5 * time.Minute
}

// Where each third unit is refused at any rate few are sent, and when that is over the rate comes
// back in a minute or so.
func TestCrowd(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 28))
		r, at := crowdRate(t)
		meet(r, at, at+time.Minute, func(time.Duration) bool { return rng.IntN(3) == 0 })
		at += time.Minute
		if sent, refused := meet(r, at, at+4*time.Minute, func(time.Duration) bool { return rng.IntN(3) == 0 }); sent > 400 || refused > 100 {
			t.Errorf("seed %d: %d sent and %d refused in four minutes", seed, sent, refused)
		}
		at += 4 * time.Minute
		meet(r, at, at+100*time.Second, func(time.Duration) bool { return false })
		if got := perSecond(r, noon.Add(at+100*time.Second)); got < 7 {
			t.Errorf("seed %d: then %.2f a second", seed, got)
		}
	}
}

// A rate that falls to a tenth is no crowd: it is found, and is used.
func TestNoCrowd(t *testing.T) {
	r, at := crowdRate(t)
	tokens, last := 0.0, at
	meet(r, at, at+3*time.Minute, func(now time.Duration) bool {
		tokens, last = min(tokens+(now-last).Seconds(), 2), now
		if tokens < 1 {
			return true
		}
		tokens--
		return false
	})
	if got := perSecond(r, noon.Add(at+3*time.Minute)); got < 0.8 || got > 1.2 {
		t.Errorf("of 1 a second %.2f are found", got)
	}
}
