package adaptive_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// What was found loses half of its distance to the floor in every half-life.
func TestRestoreAges(t *testing.T) {
	for age, want := range map[time.Duration]float64{
		-time.Hour:          101, // the clock was set back
		0:                   101,
		30 * time.Minute:    76,
		time.Hour:           51,
		90 * time.Minute:    38.5,
		2 * time.Hour:       26,
		1000 * time.Hour:    1,
		300_000 * time.Hour: 1,
	} {
		r := newRate(t, nil)
		found := adaptive.RateState{Units: 101e9, Knee: 102e9, At: noon.UnixNano()}
		r.Restore(found, noon.Add(age))
		if got := perSecond(r, noon); got != want {
			t.Errorf("after %v: %v a second, want %v", age, got, want)
		}
		if got := r.StateAt(noon).Knee; got != 102e9 {
			t.Errorf("after %v: the knee is %d", age, got)
		}
	}
}

// After a restart a clean window at most doubles the rate.
func TestRestoreStartsSlowly(t *testing.T) {
	r := newRate(t, nil)
	r.Restore(adaptive.RateState{Units: 1000e9, Knee: 1000e9, At: noon.UnixNano()}, noon.Add(10*time.Hour))
	now, last := noon.Add(10*time.Hour), 0.
	for second := range 60 {
		now = use(r, now, time.Second)
		got := perSecond(r, now)
		if last > 0 && got > 2*last {
			t.Fatalf("second %d: from %v to %v", second, last, got)
		}
		last = got
	}
	if last < 500 {
		t.Errorf("%v a second after a minute", last)
	}
}

func TestRestoreOddStates(t *testing.T) {
	for _, c := range []struct {
		name  string
		state adaptive.RateState
		want  adaptive.RateState
	}{
		{"nothing", adaptive.RateState{}, adaptive.RateState{Units: 10e9}},
		{"negative", adaptive.RateState{Units: -1, Knee: -1}, adaptive.RateState{Units: 10e9}},
		{"too much", adaptive.RateState{Units: math.MaxInt64, Knee: math.MaxInt64, At: noon.UnixNano()}, adaptive.RateState{Units: 1000e9, Knee: 1000e9}},
		{"too little", adaptive.RateState{Units: 1, Knee: 1}, adaptive.RateState{Units: 1e9, Knee: 1e9}},
		{"a knee below", adaptive.RateState{Units: 9e9, Knee: 8e9, At: noon.UnixNano()}, adaptive.RateState{Units: 9e9, Knee: 8e9}},
		{"a knee below, of long ago", adaptive.RateState{Units: 9e9, Knee: 8e9, At: noon.Add(-time.Hour).UnixNano()}, adaptive.RateState{Units: 5e9, Knee: 9e9}},
		{"of the first of days", adaptive.RateState{Units: 9e9, At: math.MinInt64}, adaptive.RateState{Units: 1e9}},
		{"a gate that has passed", adaptive.RateState{Gate: noon.UnixNano() - 1}, adaptive.RateState{Units: 10e9}},
	} {
		r := newRate(t, startAt(10))
		r.Restore(c.state, noon)
		c.want.At = noon.UnixNano()
		if got := r.StateAt(noon); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What is kept says all, in JSON as in memory: the copy decides like the original.
func TestStateRoundTrip(t *testing.T) {
	r := newRate(t, startAt(100))
	now := use(r, noon, time.Minute)
	r.RefusedAt(now, adaptive.Refusal{RetryAfter: 10 * time.Second})
	data, err := json.Marshal(r.StateAt(now))
	if err != nil {
		t.Fatal(err)
	}
	var kept adaptive.RateState
	if err := json.Unmarshal(data, &kept); err != nil {
		t.Fatal(err)
	}
	again := newRate(t, nil)
	again.Restore(kept, now)
	if again.StateAt(now) != r.StateAt(now) || kept.Gate == 0 {
		t.Errorf("%s: %+v, want %+v", data, again.StateAt(now), r.StateAt(now))
	}
	if d := again.TakeAt(now, 1); d.RetryAfter < 10*time.Second {
		t.Errorf("the gate is open: %+v", d)
	}
}

func TestRateStateRate(t *testing.T) {
	r := newRate(t, startAt(100))
	if got := r.StateAt(noon).Rate(); got.Limit() != 100 {
		t.Errorf("got %v", got)
	}
	if got := (adaptive.RateState{}).Rate(); got != (limit.Rate{Per: 1e9 * time.Second}) {
		t.Errorf("of nothing: %v", got)
	}
}
