package keyed

import (
	"testing"
	"time"
)

// Each row is some calls at an instant, and whether one more is allowed then.
func TestBreakerTable(t *testing.T) {
	type step struct {
		at       time.Duration
		failures int
		passes   int
		allow    bool
	}
	const end = 5*time.Second - 1
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"19 failures", []step{{0, 19, 0, true}}},
		{"20 failures", []step{{0, 20, 0, false}}},
		{"20 failures within 5 s", []step{{0, 19, 0, true}, {end, 1, 0, false}}},
		{"20 failures in 5 s and a nanosecond", []step{{0, 19, 0, true}, {5 * time.Second, 1, 0, true}}},
		{"half of 20", []step{{0, 0, 10, true}, {1, 10, 0, false}}},
		{"less than half", []step{{0, 0, 11, true}, {1, 9, 0, true}, {2, 0, 100, true}}},
		{"open for 5 s", []step{{0, 20, 0, false}, {end, 0, 0, false}, {5 * time.Second, 0, 0, true}}},
		{"one probe", []step{{0, 20, 0, false}, {5 * time.Second, 0, 0, true}, {6 * time.Second, 0, 0, false}}},
		{"open again", []step{
			{0, 20, 0, false}, {5 * time.Second, 0, 0, true}, {5 * time.Second, 1, 0, false},
			{5*time.Second + end, 0, 0, false}, {10 * time.Second, 0, 0, true},
		}},
		{"closed, and forgotten", []step{
			{0, 20, 0, false}, {5 * time.Second, 0, 0, true}, {5 * time.Second, 0, 1, true}, {5 * time.Second, 19, 0, true},
			{5 * time.Second, 1, 0, false},
		}},
		{"late failures do not count", []step{{0, 20, 0, false}, {1, 20, 0, false}, {5 * time.Second, 0, 0, true}}},
		{"opened by a clock that is ahead", []step{{time.Hour, 20, 0, false}, {0, 0, 0, true}}},
		{"many", []step{{0, 0, 5000, true}, {0, 511, 0, true}, {0, 1, 0, false}}}, // of the last 1,024
	} {
		t.Run(test.name, func(t *testing.T) {
			var b breaker
			for i, s := range test.steps {
				at := int64(s.at)
				for range s.failures {
					b.record(at, time.Unix(0, at), true)
				}
				for range s.passes {
					b.record(at, time.Unix(0, at), false)
				}
				if got := b.allow(at); got != s.allow {
					t.Fatalf("step %d: allow is %v, want %v", i, got, s.allow)
				}
			}
		})
	}
}

// Of the clock of the process it tells how long it stays open.
func TestBreakerRest(t *testing.T) {
	var b breaker
	start := time.Unix(1_700_000_000, 0)
	if got := b.rest(start); got != 0 {
		t.Errorf("a closed breaker rests %v", got)
	}
	for range 20 {
		b.record(42, start, true)
	}
	if got := b.rest(start.Add(2 * time.Second)); got != 3*time.Second {
		t.Errorf("rests %v, want 3s", got)
	}
	if got := b.rest(start.Add(6 * time.Second)); got != 0 {
		t.Errorf("rests %v after 6 s", got)
	}
}
