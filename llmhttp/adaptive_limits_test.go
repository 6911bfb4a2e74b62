// Limits that are found by refusals, end to end: what a provider gets from programs that call it
// through http.Client, Transport and limiter.

package llmhttp_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// long skips a simulation of many calls under the race detector.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() || racetest.Factor > 1 {
		t.Skip("takes seconds")
	}
}

// slowFloor is a quota whose rate is found from 6 calls a minute on.
var slowFloor = ratelimit.ModelQuota{AdaptiveFloorRPM: 6}

// A hundred times the floor is found in three minutes. From then on at most 1 % are refused, and
// 99 % of the capacity is used, however the provider says when there is room.
func TestAdaptiveSteady(t *testing.T) {
	long(t)
	for _, say := range []says{nothing, wholeSecond, resetHeader} {
		inBubble(t, string(say), func(t *testing.T) {
			w := world{
				provider: sim.Provider{Capacity: sim.Constant(10), Depth: 10 * time.Second},
				says:     say, callers: 400, length: 11 * time.Minute, seed: 3,
			}
			w.run(adaptiveLimiter(t, slowFloor))
			took, ok := sim.Settles(w.found[0], 0, w.length, 10, 0.1)
			t.Logf("the capacity is found after %v", took)
			if !ok || took > 3*time.Minute {
				t.Errorf("the capacity is found after %v, %v", took, ok)
			}
			s := w.total(4*time.Minute, 11*time.Minute)
			t.Logf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
			if s.RefusedShare() > 0.01 || s.Goodput() < 0.99 {
				t.Errorf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
			}
		})
	}
}

// A new capacity is found within 20 % in 60 seconds, upwards and downwards.
func TestAdaptiveSteps(t *testing.T) {
	long(t)
	for _, test := range []struct {
		name  string
		after float64
	}{{"twice as much", 20}, {"four times as much", 40}, {"half", 5}, {"a quarter", 2.5}} {
		inMostBubbles(t, test.name, func(t *testing.T) bool {
			const at = 5 * time.Minute
			w := world{
				provider: sim.Provider{Capacity: sim.Step(10, at, test.after), Depth: time.Second},
				callers:  1000, length: at + 90*time.Second, seed: 5,
			}
			w.run(adaptiveLimiter(t, slowFloor))
			took, ok := sim.Settles(w.found[0], at, w.length, test.after, 0.2)
			t.Logf("after %v, %t", took, ok)
			return ok && took <= time.Minute
		})
	}
}

// A capacity that swings by a half is followed: in 20 minutes nearly as well as one that stays. One
// that falls by a hundredth in each second is followed late.
func TestAdaptiveWaves(t *testing.T) {
	long(t)
	for _, test := range []struct {
		name           string
		period, length time.Duration
		refused, used  float64 // at most, at least
	}{
		{"in 20 minutes", 20 * time.Minute, 25 * time.Minute, 0.012, 0.975},
		{"in 5 minutes", 5 * time.Minute, 15 * time.Minute, 0.03, 0.9},
	} {
		inMostBubbles(t, test.name, func(t *testing.T) bool {
			w := world{
				provider: sim.Provider{Capacity: sim.Wave(10, 0.5, test.period), Depth: time.Second},
				callers:  1000, length: test.length, seed: 7,
			}
			w.run(adaptiveLimiter(t, slowFloor))
			s := w.total(5*time.Minute, test.length)
			t.Logf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
			return s.RefusedShare() <= test.refused && s.Goodput() >= test.used
		})
	}
}

// Two programs share within 40 and 60 %, if the second comes when the first has all. How they share
// is a matter of chance for a while, so the middle one of three runs counts.
func TestAdaptiveRivals(t *testing.T) {
	long(t)
	const from, to = 15 * time.Minute, 60 * time.Minute
	var shares []float64
	for run := range uint64(3) {
		inBubble(t, "two programs", func(t *testing.T) {
			w := world{
				provider: sim.Provider{Capacity: sim.Constant(5), Depth: time.Second, Answer: quick},
				callers:  20, joins: []time.Duration{0, 4 * time.Minute}, length: to, seed: run,
			}
			w.run(adaptiveLimiter(t, slowFloor), adaptiveLimiter(t, slowFloor))
			first, both := sim.Total(w.provider, from, to, w.found[0]), w.total(from, to)
			shares = append(shares, float64(first.Answered)/float64(both.Answered))
			if both.RefusedShare() > 0.025 || both.Goodput() < 0.99 {
				t.Errorf("%.2f %% refused, %.2f %% used", 100*both.RefusedShare(), 100*both.Goodput())
			}
		})
	}
	slices.Sort(shares)
	t.Logf("the first has %.2f", shares)
	if shares[1] < 0.4 || shares[1] > 0.6 {
		t.Errorf("the first has %.2f", shares)
	}
}

// However an outage looks, calls do not grow in it, and the provider is not met by more than was
// found of its capacity when it is back.
func TestAdaptiveOutage(t *testing.T) {
	long(t)
	broken := errors.New("connection reset")
	both := ratelimit.ModelQuota{AdaptiveFloorRPM: 6, AdaptiveFloorInFlight: 2}
	answer := func(status int) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) { return response(req, status, ``), nil }
	}
	slots := ratelimit.ModelQuota{AdaptiveFloorInFlight: 2}
	for _, test := range []struct {
		name     string
		quota    ratelimit.ModelQuota
		capacity float64 // calls a second; 60 in flight are at least 25
		down     func(*http.Request) (*http.Response, error)
		most     int // calls in the last three minutes of the outage
	}{
		{"503, by the rate", slowFloor, 10, answer(503), 20},
		{"503, by the calls in flight", slots, 25, answer(503), 20},
		{"503, by both", both, 10, answer(503), 20},
		{"429, by the rate", slowFloor, 10, answer(429), 3 * 6 * 5 / 4},
		{"500, by the rate", slowFloor, 10, answer(500), 3 * 60 * 11},
		{"500, by both", both, 10, answer(500), 3 * 60 * 11},
		{"broken connections, by both", both, 10, func(*http.Request) (*http.Response, error) { return nil, broken }, 3 * 60 * 11},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			const from, back = 4 * time.Minute, 8 * time.Minute
			capacity := test.capacity
			if test.quota == slots {
				capacity = 1000
			}
			w := world{
				provider: sim.Provider{
					Capacity: sim.Outage(capacity, from, back), Depth: time.Second, Answer: quick,
					Slots: func(time.Duration) int { return 60 },
				},
				callers: 100, length: back + 4*time.Minute, seed: 3, down: test.down,
			}
			w.run(adaptiveLimiter(t, test.quota))
			second := w.total(back, back+time.Second)
			outage := w.total(back-3*time.Minute, back)
			later := w.total(back+2*time.Minute, w.length)
			used := float64(later.Answered) / (test.capacity * 120)
			t.Logf("%d calls in the outage, %d in the first second; then %.2f %% refused, %.2f %% used",
				outage.Sent, second.Sent, 100*later.RefusedShare(), 100*used)
			if outage.Sent > test.most {
				t.Errorf("%d calls in the last three minutes of the outage, want at most %d", outage.Sent, test.most)
			}
			if float64(second.Sent) > 1.2*test.capacity {
				t.Errorf("%d calls in the first second", second.Sent)
			}
			if used < 0.9 || later.RefusedShare() > 0.01 {
				t.Errorf("then %.2f %% are refused, and %.2f %% used", 100*later.RefusedShare(), 100*used)
			}
		})
	}
}

// Limits in headers win over what would be found.
func TestAdaptiveLearns(t *testing.T) {
	long(t)
	inBubble(t, "headers", func(t *testing.T) {
		w := world{
			provider: sim.Provider{Capacity: sim.Constant(10), Depth: time.Minute},
			says:     allHeaders, callers: 700, length: 6 * time.Minute, seed: 3,
		}
		w.run(adaptiveLimiter(t, slowFloor))
		s := w.total(2*time.Minute, w.length)
		t.Logf("%d refused, %.2f %% used", s.Refused, 100*s.Goodput())
		if s.Refused > 0 || s.Goodput() < 0.95 {
			t.Errorf("%d refused, %.2f %% used", s.Refused, 100*s.Goodput())
		}
		if level := w.found[0][30].Level; level != 0 {
			t.Errorf("%v calls a second were found", level)
		}
	})
}

// Overload finds the calls in flight, in both directions.
func TestAdaptiveSlots(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after int
	}{{"half", 40, 20}, {"twice as many", 20, 40}} {
		if racetest.Factor > 1 && test.after > test.before {
			continue // the same goroutines
		}
		inBubble(t, test.name, func(t *testing.T) {
			const at = 5 * time.Minute
			w := world{
				provider: sim.Provider{
					Capacity: sim.Constant(1e6), Depth: time.Second, Answer: quick,
					Slots: func(now time.Duration) int {
						if now < at {
							return test.before
						}
						return test.after
					},
				},
				callers: 100, length: at + 4*time.Minute, seed: 3,
			}
			w.run(adaptiveLimiter(t, ratelimit.ModelQuota{AdaptiveCeilingInFlight: 1000}))
			took := 0
			for near := false; !near && took < 240; took++ {
				slots := w.slots[0][int(at/time.Second)+took]
				near = slots*10 >= test.after*8 && slots*10 <= test.after*12
			}
			s := w.total(3*time.Minute, at)
			t.Logf("after %d s; before %.2f %% refused", took, 100*s.RefusedShare())
			if took > 60 {
				t.Errorf("after %d s", took)
			}
			if s.RefusedShare() > 0.03 {
				t.Errorf("%.2f %% refused", 100*s.RefusedShare())
			}
		})
	}
}
