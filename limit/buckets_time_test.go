package limit_test

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

const years = 365 * 24 * time.Hour

// lineKinds are the algorithms that count on a time line of their own.
var lineKinds = append(bucketKinds[:len(bucketKinds):len(bucketKinds)], []struct {
	name string
	make func(rate limit.Rate, capacity int) (limit.Holder, error)
}{
	{"Queue", func(r limit.Rate, c int) (limit.Holder, error) { return holder(limit.NewQueue(r, c)) }},
	{"Sharded", func(r limit.Rate, c int) (limit.Holder, error) { return holder(limit.NewSharded(r, c, 1)) }},
}...)

// A request that charges nothing leaves no trace, even at a far instant: two units pass at
// noon after any of them.
func TestFarInstantsThatChargeNothing(t *testing.T) {
	for _, kind := range lineKinds {
		for _, ask := range []struct {
			name string
			of   func(l limit.Holder, at time.Time)
		}{
			{"a peek", func(l limit.Holder, at time.Time) { l.TakeAt(at, 0) }},
			{"a hold of nothing", func(l limit.Holder, at time.Time) { l.HoldAt(at, 0) }},
			{"too many", func(l limit.Holder, at time.Time) { l.TakeAt(at, 3) }},
			{"a hold of too many", func(l limit.Holder, at time.Time) { l.HoldAt(at, 3) }},
			{"less than nothing", func(l limit.Holder, at time.Time) { l.TakeAt(at, -1) }},
			{"a Set that is refused", func(l limit.Holder, at time.Time) {
				other := must(limit.NewSlidingLog(1, time.Second))
				other.TakeAt(at, 1)
				limit.All(l, other).TakeAt(at, 1)
			}},
		} {
			for _, away := range []time.Duration{-200 * years, -80 * years, 80 * years, 100 * years, 200 * years, 290 * years} {
				l, want := must(kind.make(limit.PerSecond(1), 2)), must(kind.make(limit.PerSecond(1), 2))
				for i, n := range []int{1, 1, 1, 0} {
					ask.of(l, noon.Add(away))
					at := noon.Add(time.Duration(i) * time.Millisecond)
					if d, w := l.TakeAt(at, n), want.TakeAt(at, n); d != w {
						t.Errorf("%s, %s %v away, request %d: %+v, want %+v", kind.name, ask.name, away, i, d, w)
					}
				}
			}
		}
	}
}

// RetryAfter is exact as far as a Duration reaches, even from instants before the line of
// the limiter.
func TestRetryAfterFarBefore(t *testing.T) {
	for _, kind := range lineKinds {
		for _, back := range []time.Duration{0, 70 * years, 74 * years, 100 * years, 292 * years} {
			l := must(kind.make(limit.PerSecond(1), 2))
			l.TakeAt(noon, 1)
			l.TakeAt(noon, 1)
			at := noon.Add(-back)
			d := l.TakeAt(at, 1)
			if d.OK || d.ResetAfter != back+2*time.Second {
				t.Errorf("%s, %v before: %+v", kind.name, back, d)
			}
			if early := l.TakeAt(at.Add(d.RetryAfter-1), 1); early.OK || early.RetryAfter != 1 {
				t.Errorf("%s, %v before: %+v, a nanosecond early %+v", kind.name, back, d, early)
			}
			if late := l.TakeAt(at.Add(d.RetryAfter), 1); !late.OK {
				t.Errorf("%s, %v before: %+v, then %+v", kind.name, back, d, late)
			}
		}
		l := must(kind.make(limit.PerSecond(1), 1))
		l.TakeAt(noon, 1)
		if d := l.TakeAt(time.Time{}, 1); d.OK || d.RetryAfter != math.MaxInt64 || d.ResetAfter != math.MaxInt64 {
			t.Errorf("%s: longer than a Duration: %+v", kind.name, d)
		}
	}
}

// Instants farther apart than a Duration reaches count as that far: sums stop at the
// longest Duration, and the first instant of all is as good as another.
func TestInstantsAtTheEndsOfADuration(t *testing.T) {
	for _, kind := range lineKinds {
		l := must(kind.make(limit.PerSecond(1), 1))
		if d, want := l.TakeAt(time.Unix(-1<<60, 0), 1), (limit.Decision{OK: true, ResetAfter: time.Second}); d != want {
			t.Errorf("%s, first at the beginning of time: %+v, want %+v", kind.name, d, want)
		}
		l = must(kind.make(limit.PerSecond(1), 1))
		l.TakeAt(noon, 1)
		if d := l.TakeAt(noon.Add(time.Second/2-math.MaxInt64), 1); d.OK || d.ResetAfter != math.MaxInt64 {
			t.Errorf("%s, 292 years before: %+v", kind.name, d)
		}
	}
}
