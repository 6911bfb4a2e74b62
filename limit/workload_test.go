package limit_test

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// workload is 100 requests in the first second, none in the next, 100 in the tenth of a
// second after 2 s, and 200 in the second after 3 s. Each has a slot of its own, and comes
// at an instant of it.
func workload(instant func(slot time.Duration) time.Duration) (arrivals []time.Duration) {
	for _, phase := range []struct {
		from, slot time.Duration
		n          int
	}{{0, 10 * time.Millisecond, 100}, {2 * time.Second, time.Millisecond, 100}, {3 * time.Second, 5 * time.Millisecond, 200}} {
		for i := range phase.n {
			arrivals = append(arrivals, phase.from+time.Duration(i)*phase.slot+instant(phase.slot))
		}
	}
	return arrivals
}

var instants = []struct {
	name string
	of   func(slot time.Duration) time.Duration
}{
	{"the start", func(time.Duration) time.Duration { return 0 }},
	{"the middle", func(slot time.Duration) time.Duration { return slot / 2 }},
	{"the last nanosecond", func(slot time.Duration) time.Duration { return slot - 1 }},
	{"the end", func(slot time.Duration) time.Duration { return slot }},
}

// What all of them admit of one workload, at 100 a second and at most 100 at once. A
// FixedWindow admits one more where requests come at the end of their slots: the last
// comes at 4.000 s, and that is the first of the fifth second.
func TestWorkload(t *testing.T) {
	r, second := limit.PerSecond(100), time.Second
	buckets := [3]int{100, 100, 199} // 100 at 3 s, and 99 before the last request
	windows := [3]int{100, 100, 100}
	for _, c := range []struct {
		name        string
		make        func() limit.Limiter
		want, atEnd [3]int // of each phase
	}{
		{"TokenBucket", func() limit.Limiter { return limit.NewTokenBucket(r.Limit(), 100) }, buckets, buckets},
		{"GCRA", func() limit.Limiter { return must(limit.NewGCRA(r, 100)) }, buckets, buckets},
		{"AtomicGCRA", func() limit.Limiter { return must(limit.NewAtomicGCRA(r, 100)) }, buckets, buckets},
		{"Meter", func() limit.Limiter { return must(limit.NewMeter(r, 100)) }, buckets, buckets},
		{"Queue", func() limit.Limiter { return must(limit.NewQueue(r, 100)) }, [3]int{100, 100, 200}, [3]int{100, 100, 200}},
		{"FixedWindow", func() limit.Limiter { return must(limit.NewFixedWindow(100, second)) }, windows, [3]int{100, 100, 101}},
		{"AnchoredWindow", func() limit.Limiter { return must(limit.NewAnchoredWindow(100, second)) }, windows, windows},
		{"SlidingLog", func() limit.Limiter { return must(limit.NewSlidingLog(100, second)) }, windows, windows},
		{"SlidingCounter", func() limit.Limiter { return must(limit.NewSlidingCounter(100, second)) }, windows, windows},
	} {
		for _, instant := range instants {
			l := c.make()
			var admitted [3]int
			for i, at := range workload(instant.of) {
				if l.TakeAt(noon.Add(at), 1).OK {
					admitted[min(i/100, 2)]++
				}
			}
			want := c.want
			if instant.name == "the end" {
				want = c.atEnd
			}
			if admitted != want {
				t.Errorf("%s, at %s of the slots: %v, want %v", c.name, instant.name, admitted, want)
			}
		}
	}
}

// After the burst of 100 the 10 tokens are there that came in the meantime.
func TestWorkloadLeavesTenTokens(t *testing.T) {
	b := limit.NewTokenBucket(100, 100)
	for _, at := range workload(instants[0].of)[:200] {
		b.TakeAt(noon.Add(at), 1)
	}
	if tokens := b.TokensAt(noon.Add(2100 * time.Millisecond)); math.Abs(tokens-10) > 1e-9 {
		t.Errorf("%v tokens, want 10", tokens)
	}
}

// The Queue starts them 10 ms apart, and none waits for a whole second.
func TestWorkloadInAQueue(t *testing.T) {
	for _, instant := range instants {
		q := must(limit.NewQueue(limit.PerSecond(100), 100))
		var longest, last time.Duration
		for i, at := range workload(instant.of) {
			delay, _ := q.ReserveAt(noon.Add(at), 1)
			if gap := at + delay - last; i > 0 && gap < 10*time.Millisecond {
				t.Fatalf("at %s of the slots: %v after the one before", instant.name, gap)
			}
			longest, last = max(longest, delay), at+delay
		}
		if want := 4990*time.Millisecond + instant.of(5*time.Millisecond); longest != 995*time.Millisecond || last != want {
			t.Errorf("at %s of the slots: the longest waits %v, the last starts at %v, want %v", instant.name, longest, last, want)
		}
	}
}
