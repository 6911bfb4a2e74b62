package adaptive_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

var _ limit.Limiter = (*adaptive.Rate)(nil)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// newRate returns a Rate of 1 to 1,000 a second with a seed, but for what change changes.
func newRate(t testing.TB, change func(*adaptive.RateConfig)) *adaptive.Rate {
	t.Helper()
	c := adaptive.RateConfig{Floor: limit.PerSecond(1), Ceiling: limit.PerSecond(1000), Seed: 20}
	if change != nil {
		change(&c)
	}
	r, err := adaptive.NewRate(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// perSecond returns the present rate in units in a second.
func perSecond(r *adaptive.Rate, now time.Time) float64 { return float64(r.StateAt(now).Units) / 1e9 }

// use takes all that passes for a time, and returns the end of it.
func use(r *adaptive.Rate, now time.Time, d time.Duration) time.Time {
	end := now.Add(d)
	for {
		decision := r.TakeAt(now, 1)
		if decision.OK {
			continue
		}
		if now = now.Add(decision.RetryAfter); now.After(end) {
			return end
		}
	}
}

func startAt(n int) func(*adaptive.RateConfig) {
	return func(c *adaptive.RateConfig) { c.Start = limit.PerSecond(n) }
}

// A request passes when its RetryAfter is over, and not a nanosecond sooner; and a refused
// one leaves no trace.
func TestRateRetryAfterIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 1))
	r := newRate(t, func(c *adaptive.RateConfig) { c.Burst, c.Start = 4, limit.PerSecond(7) })
	now, retries, gates := noon, 0, 0
	for range 20_000 {
		now = now.Add(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		if rng.IntN(300) == 0 {
			gates++
			r.RefusedAt(now, adaptive.Refusal{RetryAfter: time.Duration(rng.Int64N(int64(3 * time.Second)))})
		}
		before := r.TakeAt(now, 0)
		if !before.OK || before.Remaining < 0 || before.Remaining > 4 || before.RetryAfter != 0 {
			t.Fatalf("a peek: %+v", before)
		}
		n := 1 + rng.IntN(4)
		d := r.TakeAt(now, n)
		if d.OK != (n <= before.Remaining) {
			t.Fatalf("%d of %+v: %+v", n, before, d)
		}
		if d.OK {
			continue
		}
		retries++
		if after := r.TakeAt(now, 0); after != before {
			t.Fatalf("%d were refused, and changed %+v to %+v", n, before, after)
		}
		if now = now.Add(d.RetryAfter - 1); d.RetryAfter > 1 {
			if d := r.TakeAt(now, n); d.OK || d.RetryAfter != 1 {
				t.Fatalf("%d, a nanosecond early: %+v", n, d)
			}
		}
		if now = now.Add(1); !r.TakeAt(now, n).OK {
			t.Fatalf("%d, when they should pass: refused", n)
		}
	}
	if retries < 1000 || gates < 20 {
		t.Errorf("only %d retries and %d gates", retries, gates)
	}
}

// A Rate whose floor is its ceiling decides like a GCRA, whatever is taken when.
func TestRateOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 2))
	for range 200 {
		burst := 1 + rng.IntN(10)
		r := newRate(t, func(c *adaptive.RateConfig) {
			c.Floor = limit.Rate{Count: 1 + rng.IntN(100), Per: time.Duration(1000 + rng.Int64N(int64(time.Minute)))}
			c.Ceiling, c.Burst = c.Floor, burst
		})
		units := r.StateAt(noon).Units
		gap := time.Duration((1e18 + units - 1) / units)
		oracle, err := limit.NewGCRA(limit.Every(gap), burst)
		if err != nil {
			t.Fatal(err)
		}
		now := noon
		for range 300 {
			now = now.Add(time.Duration(rng.Int64N(int64(3*gap))) - gap/2) // now and then back
			n := rng.IntN(burst+3) - 1
			got, want := r.TakeAt(now, n), oracle.TakeAt(now, n)
			if got != want {
				t.Fatalf("every %v, burst %d: %d at %v: %+v, want %+v", gap, burst, n, now, got, want)
			}
		}
	}
}

func TestRateNever(t *testing.T) {
	r := newRate(t, func(c *adaptive.RateConfig) { c.Burst = 3 })
	for _, n := range []int{-1, math.MinInt, 4, math.MaxInt} {
		if d := r.TakeAt(noon, n); d.OK || !d.Never || d.RetryAfter != 0 || d.Remaining != 3 {
			t.Errorf("%d: %+v", n, d)
		}
	}
	if d := r.TakeAt(noon, 3); !d.OK || d.Remaining != 0 || d.ResetAfter != 3*time.Second {
		t.Errorf("all: %+v", d)
	}
}

// Twenty refusals of one event are one decrease.
func TestRateOneDecreaseInACoolDown(t *testing.T) {
	for _, sent := range []bool{false, true} {
		r := newRate(t, startAt(100))
		lowered := 0
		for i := range 20 {
			f := adaptive.Refusal{}
			if sent {
				f.Sent = noon.Add(-time.Second)
			}
			if r.RefusedAt(noon.Add(time.Duration(i)*99*time.Millisecond), f) {
				lowered++
			}
		}
		if got := perSecond(r, noon); lowered != 1 || got != 95 {
			t.Errorf("sent %v: %d decreases to %v a second, want 1 to 95", sent, lowered, got)
		}
	}
}

// The first refusal takes 5 %, the next 10 %, and those that follow 30 %, down to the floor.
// A clean window ends the row.
func TestRateDecreases(t *testing.T) {
	r := newRate(t, startAt(100))
	now := noon
	for i, want := range []float64{95, 85.5, 59.85, 41.895, 29.3265, 20.52855, 14.369985} {
		if !r.RefusedAt(now, adaptive.Refusal{}) || perSecond(r, now) != want {
			t.Errorf("refusal %d: %v a second, want %v", i+1, perSecond(r, now), want)
		}
		now = now.Add(2 * time.Second)
	}
	for range 20 {
		r.RefusedAt(now, adaptive.Refusal{})
		now = now.Add(2 * time.Second)
	}
	if got := perSecond(r, now); got != 1 {
		t.Errorf("after an outage: %v a second, want the floor", got)
	}

	r = newRate(t, startAt(100))
	r.RefusedAt(noon, adaptive.Refusal{})
	now = use(r, noon, 3*time.Second)
	before := perSecond(r, now)
	if want := 95 + 5./7; math.Abs(before-want) > 1e-6 {
		t.Fatalf("after a clean window: %v a second, want %v", before, want)
	}
	r.RefusedAt(now, adaptive.Refusal{})
	if got, want := perSecond(r, now), before*.95; math.Abs(got-want) > 1e-6 {
		t.Errorf("after another refusal: %v a second, want %v", got, want)
	}
}

// What was sent before the rate was lowered tells nothing about the lower rate.
func TestRateLateRefusals(t *testing.T) {
	r := newRate(t, startAt(100))
	r.RefusedAt(noon, adaptive.Refusal{})
	late := noon.Add(2 * time.Minute)
	if r.RefusedAt(late, adaptive.Refusal{Sent: noon}) {
		t.Error("a call sent at the decrease lowered the rate again")
	}
	if !r.RefusedAt(late, adaptive.Refusal{Sent: noon.Add(1)}) {
		t.Error("a call sent after the decrease did not lower the rate")
	}
}

// While calls fail for other reasons the rate stays.
func TestRateFailed(t *testing.T) {
	r := newRate(t, startAt(10))
	now := noon
	for range 100 {
		now = use(r, now, time.Second)
		r.FailedAt(now)
	}
	if got := perSecond(r, now); got != 10 {
		t.Errorf("%v a second, want 10", got)
	}
}

// A rate that is not used is not raised, however long there is no refusal.
func TestRateUnusedIsNotRaised(t *testing.T) {
	r := newRate(t, startAt(10))
	now := noon
	for range 1000 {
		now = now.Add(200 * time.Millisecond) // half of it
		r.TakeAt(now, 1)
	}
	if got := perSecond(r, now); got != 10 {
		t.Errorf("%v a second, want 10", got)
	}
	now = use(r, now, 10*time.Second)
	if got := perSecond(r, now); got <= 10 {
		t.Errorf("used, it is %v a second", got)
	}
}

// The rate doubles while nothing is known, and never passes the ceiling.
func TestRateFromFloorToCeiling(t *testing.T) {
	for name, change := range map[string]func(*adaptive.RateConfig){
		"a second": nil,
		"a minute": func(c *adaptive.RateConfig) { c.Floor, c.Ceiling = limit.PerMinute(1), limit.PerMinute(100) },
	} {
		r := newRate(t, change)
		floor := perSecond(r, noon)
		now := use(r, noon, 3*time.Minute)
		if got := perSecond(r, now); got < 100*floor*.999999 {
			t.Errorf("%s: %v of the floor in 3 minutes, want 100", name, got/floor)
		}
		now = use(r, now, time.Minute)
		if got, most := perSecond(r, now), 1000.; got > most {
			t.Errorf("%s: %v a second, above the ceiling", name, got)
		}
	}
}

// Nothing passes before what the provider says is over, and everything does soon after.
func TestRateGate(t *testing.T) {
	for _, c := range []struct {
		refusal adaptive.Refusal
		wait    time.Duration
	}{
		{adaptive.Refusal{RetryAfter: 30 * time.Second}, 30 * time.Second},
		{adaptive.Refusal{Reset: 30 * time.Second}, 30 * time.Second},
		{adaptive.Refusal{RetryAfter: 30 * time.Second, Reset: time.Hour}, 30 * time.Second},
		{adaptive.Refusal{RetryAfter: -1, Reset: -1}, 0},
		{adaptive.Refusal{RetryAfter: 1}, 1},
	} {
		r := newRate(t, nil)
		r.RefusedAt(noon, c.refusal)
		d := r.TakeAt(noon, 1)
		if got := d.RetryAfter; got < c.wait || got > c.wait+min(c.wait/8, time.Second) {
			t.Errorf("%+v: passes after %v", c.refusal, got)
		}
		if c.wait > 0 && (d.Remaining != 0 || d.ResetAfter != d.RetryAfter) {
			t.Errorf("%+v: %+v", c.refusal, d)
		}
		// A shorter one does not open it.
		r.RefusedAt(noon, adaptive.Refusal{RetryAfter: 1})
		if got := r.TakeAt(noon, 1).RetryAfter; got < c.wait {
			t.Errorf("%+v, then a shorter one: passes after %v", c.refusal, got)
		}
	}
}

// Two with one seed do the same, and two with others do not return together.
func TestRateJitter(t *testing.T) {
	waits := map[time.Duration]int{}
	for seed := range uint64(10) {
		var of [2]time.Duration
		for i := range of {
			r := newRate(t, func(c *adaptive.RateConfig) { c.Seed = seed + 1 })
			r.RefusedAt(noon, adaptive.Refusal{RetryAfter: time.Minute})
			of[i] = r.TakeAt(noon, 1).RetryAfter
		}
		if of[0] != of[1] {
			t.Errorf("seed %d: %v and %v", seed, of[0], of[1])
		}
		waits[of[0]]++
	}
	if len(waits) < 10 {
		t.Errorf("10 seeds have %d waits: %v", len(waits), waits)
	}
}

func TestNewRateErrors(t *testing.T) {
	second := limit.PerSecond(1)
	for field, c := range map[string]adaptive.RateConfig{
		"Floor is 0/0s":        {Ceiling: second},
		"Floor is -1/1s":       {Floor: limit.PerSecond(-1), Ceiling: second},
		"Ceiling is 0/0s":      {Floor: second},
		"Ceiling is 1/2s":      {Floor: second, Ceiling: limit.Every(2 * time.Second)},
		"Ceiling is 2/1ns":     {Floor: second, Ceiling: limit.Rate{Count: 2, Per: 1}},
		"Start is 1/2s":        {Floor: second, Ceiling: second, Start: limit.Every(2 * time.Second)},
		"Start is 2/1s":        {Floor: second, Ceiling: second, Start: limit.PerSecond(2)},
		"Burst is -1":          {Floor: second, Ceiling: second, Burst: -1},
		"Burst is 2147483647":  {Floor: second, Ceiling: second, Burst: math.MaxInt32},
		"CoolDown is -1ns":     {Floor: second, Ceiling: second, CoolDown: -1},
		"Window is -1ns":       {Floor: second, Ceiling: second, Window: -1},
		"HalfLife is 2562047h": {Floor: second, Ceiling: second, HalfLife: math.MaxInt64},
		"WindowUnits is -1":    {Floor: second, Ceiling: second, WindowUnits: -1},
		"Decrease is 501":      {Floor: second, Ceiling: second, Decrease: 501},
		"Increase is 1001":     {Floor: second, Ceiling: second, Increase: 1001},
	} {
		r, err := adaptive.NewRate(c)
		if r != nil || !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), field) ||
			!strings.HasPrefix(err.Error(), "new adaptive rate: ") {
			t.Errorf("%s: %v, %v", field, r, err)
		}
	}
}

// An instant before an earlier one never admits more.
func TestRateClockGoesBack(t *testing.T) {
	r := newRate(t, func(c *adaptive.RateConfig) { c.Burst = 5 })
	for r.TakeAt(noon, 1).OK {
	}
	for _, back := range []time.Duration{1, time.Second, time.Hour, 1000 * time.Hour} {
		d := r.TakeAt(noon.Add(-back), 1)
		if want := back + time.Second; d.OK || d.RetryAfter != want || d.Remaining != 0 {
			t.Errorf("back by %v: %+v, want to wait %v", back, d, want)
		}
	}
	far := noon.AddDate(-1000, 0, 0)
	if d := r.TakeAt(far, 1); d.OK || d.RetryAfter != math.MaxInt64 || d.ResetAfter != math.MaxInt64 {
		t.Errorf("1000 years back: %+v", d)
	}
	if d := r.TakeAt(noon.Add(time.Second), 1); !d.OK || d.Remaining != 0 {
		t.Errorf("a second after the beginning: %+v", d)
	}
	// A clock that was set back does not keep refusals from being heard.
	if !r.RefusedAt(noon, adaptive.Refusal{}) || !r.RefusedAt(noon.Add(-time.Hour), adaptive.Refusal{Sent: noon.Add(-time.Hour)}) {
		t.Error("a refusal after the clock was set back was not heard")
	}
}

// Centuries later all has lapsed but what was found.
func TestRateAfterCenturies(t *testing.T) {
	r := newRate(t, startAt(10))
	r.RefusedAt(noon, adaptive.Refusal{RetryAfter: math.MaxInt64})
	now := noon
	for range 12 {
		now = now.AddDate(100, 0, 0)
		if d := r.TakeAt(now, 1); !d.OK || d.ResetAfter < time.Second/10 || d.ResetAfter > time.Second/9 {
			t.Fatalf("in %d: %+v", now.Year(), d)
		}
	}
}
