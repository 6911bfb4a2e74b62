package adaptive_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

func newThrottle(t testing.TB, c adaptive.ThrottleConfig) *adaptive.Throttle {
	t.Helper()
	if c.Seed == 0 {
		c.Seed = 20
	}
	throttle, err := adaptive.NewThrottle(c)
	if err != nil {
		t.Fatal(err)
	}
	return throttle
}

// The probability is that of the formula, in thousandths.
func TestThrottleRejection(t *testing.T) {
	for _, c := range []struct{ k, accepted, failed, want int }{
		{2000, 0, 0, 0}, {2000, 100, 0, 0}, {2000, 50, 50, 0}, {2000, 40, 60, 198}, {2000, 0, 1, 500}, {2000, 0, 99, 990},
		{1000, 50, 50, 495}, {1100, 90, 10, 9}, {5000, 20, 80, 0}, {5000, 10, 90, 495},
	} {
		th := newThrottle(t, adaptive.ThrottleConfig{K: c.k})
		for range c.accepted {
			th.AcceptedAt(noon)
		}
		for range c.failed {
			th.FailedAt(noon)
		}
		if got := th.RejectionAt(noon); got != c.want {
			t.Errorf("K %d, %d accepted, %d failed: %d, want %d", c.k, c.accepted, c.failed, got, c.want)
		}
	}
}

// No more is rejected than MaxRejection says.
func TestThrottleMaxRejection(t *testing.T) {
	th := newThrottle(t, adaptive.ThrottleConfig{MaxRejection: 900})
	now, passed := noon, 0
	for range 100_000 {
		if now = now.Add(time.Millisecond); th.AllowAt(now) {
			passed++
			th.FailedAt(now)
		}
	}
	if th.RejectionAt(now) != 900 || passed < 9000 || passed > 11_000 {
		t.Errorf("%d of 1000 are rejected, and %d of 100,000 passed", th.RejectionAt(now), passed)
	}
}

// As many are rejected as the probability says: within 5 standard deviations.
func TestThrottleRejectsByChance(t *testing.T) {
	for _, accepted := range []int{0, 100, 300, 450, 500, 900} {
		rejected, want := 0, 0.
		const runs = 800 / min(racetest.Factor, 8)
		for seed := range uint64(runs) {
			th := newThrottle(t, adaptive.ThrottleConfig{Seed: seed + 1})
			if !th.AllowAt(noon) {
				t.Fatal("the first call was rejected")
			}
			for i := range 1000 {
				if i < accepted {
					th.AcceptedAt(noon)
				} else {
					th.FailedAt(noon)
				}
			}
			want = max(0, float64(1000-2*accepted)/1001)
			if !th.AllowAt(noon.Add(time.Millisecond)) {
				rejected++
			}
		}
		got, deviation := float64(rejected)/runs, math.Sqrt(want*(1-want)/runs)
		if math.Abs(got-want) > 5*deviation {
			t.Errorf("%d of 1000 accepted: %.3f are rejected, want %.3f", accepted, got, want)
		}
	}
}

// Two with one seed decide the same.
func TestThrottleIsDeterministic(t *testing.T) {
	decide := func(seed uint64) (s string) {
		th := newThrottle(t, adaptive.ThrottleConfig{Seed: seed})
		for i := range 200 {
			now := noon.Add(time.Duration(i) * 50 * time.Millisecond)
			if th.AllowAt(now) {
				s += "1"
				th.FailedAt(now)
			} else {
				s += "0"
			}
		}
		return s
	}
	first, again, other := decide(1), decide(1), decide(2)
	if first != again || first == other {
		t.Errorf("seed 1 twice and 2:\n%s\n%s\n%s", first, again, other)
	}
}

// Clients with different seeds do not probe together.
func TestThrottleProbesDiffer(t *testing.T) {
	probes := map[time.Duration]bool{}
	for seed := range uint64(10) {
		th := newThrottle(t, adaptive.ThrottleConfig{Seed: seed + 1, K: 1000})
		th.AllowAt(noon)
		for range 100_000 {
			th.FailedAt(noon)
		}
		now := noon
		for !th.AllowAt(now) {
			now = now.Add(time.Millisecond)
		}
		probes[now.Sub(noon)] = true
	}
	if len(probes) < 8 {
		t.Errorf("10 seeds probe at %d times: %v", len(probes), probes)
	}
}

// A call that takes minutes is no failure while it is under way.
func TestThrottleCallsUnderWay(t *testing.T) {
	th := newThrottle(t, adaptive.ThrottleConfig{})
	for i := range 10_000 {
		if !th.AllowAt(noon.Add(time.Duration(i) * 10 * time.Millisecond)) {
			t.Fatalf("call %d was rejected", i)
		}
	}
}

// Outcomes count for the window and no longer, as in a list of all of them.
func TestThrottleOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 5))
	const window = 24 * time.Second // cells of a second
	for range 50 {
		th := newThrottle(t, adaptive.ThrottleConfig{Window: window, K: 1500})
		type outcome struct {
			cell     int
			accepted bool
		}
		var all []outcome
		th.RejectionAt(noon)
		elapsed := time.Duration(0)
		for range 400 {
			elapsed += time.Duration(rng.Int64N(int64(2 * time.Second)))
			if rng.IntN(50) == 0 {
				elapsed += time.Duration(rng.Int64N(int64(2 * window)))
			}
			now, cell := noon.Add(elapsed), int(elapsed/time.Second)
			for range rng.IntN(4) {
				o := outcome{cell, rng.IntN(3) == 0}
				if o.accepted {
					th.AcceptedAt(now)
				} else {
					th.FailedAt(now)
				}
				all = append(all, o)
			}
			requests, accepts := 0, 0
			for _, o := range all {
				if cell-o.cell < 24 {
					requests++
					if o.accepted {
						accepts++
					}
				}
			}
			want := max(1000*requests-1500*accepts, 0) / (requests + 1)
			if got := th.RejectionAt(now); got != want {
				t.Fatalf("after %v: %d, want %d of %d and %d", elapsed, got, want, requests, accepts)
			}
		}
	}
}

func TestThrottleOddInstants(t *testing.T) {
	th := newThrottle(t, adaptive.ThrottleConfig{})
	for i := range 100 {
		th.FailedAt(noon.Add(-time.Duration(i) * time.Hour)) // count as of noon
	}
	if got := th.RejectionAt(noon); got != 990 {
		t.Errorf("%d, want 990", got)
	}
	for range 10 {
		noonLater := noon.AddDate(200, 0, 0)
		if got := th.RejectionAt(noonLater); got != 0 || !th.AllowAt(noonLater) {
			t.Errorf("centuries later %d of 1000 are rejected", got)
		}
	}
}

func TestThrottleRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(t, adaptive.ThrottleConfig{})
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for range 300 {
					if th.Allow() {
						if time.Sleep(time.Second); i%3 == 0 {
							th.Accepted()
						} else {
							th.Failed()
						}
					} else {
						time.Sleep(10 * time.Millisecond)
					}
					th.Rejection()
				}
			})
		}
		wg.Wait()
		if got := th.Rejection(); got < 200 || got > 999 {
			t.Errorf("%d of 1000 are rejected when a third is accepted", got)
		}
	})
}

func TestNewThrottleErrors(t *testing.T) {
	for field, c := range map[string]adaptive.ThrottleConfig{
		"K is 999":                {K: 999},
		"K is 1000001":            {K: 1_000_001},
		"MaxRejection is -1":      {MaxRejection: -1},
		"MaxRejection is 1001":    {MaxRejection: 1001},
		"RejectionWeight is -1":   {RejectionWeight: -1},
		"RejectionWeight is 1001": {RejectionWeight: 1001},
		"Window is 23ns":          {Window: 23},
		"Window is 25620":         {Window: math.MaxInt64},
		"Probe is -1ns":           {Probe: -1},
	} {
		th, err := adaptive.NewThrottle(c)
		if th != nil || !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), field) ||
			!strings.HasPrefix(err.Error(), "new adaptive throttle: ") {
			t.Errorf("%s: %v, %v", field, th, err)
		}
	}
}
