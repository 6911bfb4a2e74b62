package limit

import (
	"math"
	"time"
)

// timeline turns instants into nanoseconds since the first one. The zero value has not
// begun.
type timeline struct {
	origin time.Time
	begun  bool
}

// far is the length of a line: longer than any charge takes to lapse, with room for sums in
// an int64.
const far = 2 * int64(maxSpan)

// at returns now in nanoseconds on the line, and moves nothing: a request that charges
// nothing leaves no trace. An instant more than far before the origin counts as that one;
// early is how much earlier it is. An instant more than 2*far after the origin, when
// everything has lapsed, counts as that one.
func (l *timeline) at(now time.Time) (offset int64, early time.Duration) {
	if !l.begun {
		return 0, 0
	}
	since := now.Sub(l.origin)
	switch {
	case since == math.MinInt64: // more than a Duration can say
		return -far, math.MaxInt64
	case int64(since) < -far:
		return -far, -time.Duration(far) - since
	}
	return min(int64(since), 2*far), 0
}

// from is at, but an instant before least counts as that one.
func (l *timeline) from(now time.Time, least int64) (offset int64, early time.Duration) {
	if offset, early = l.at(now); offset < least {
		return least, sum(early, time.Duration(least-offset))
	}
	return offset, early
}

// ends reports whether the line has to begin, or to begin anew, before a charge at offset.
func (l *timeline) ends(offset int64) bool { return !l.begun || offset >= far }

// reach makes now, which lies at offset, one of the line: if it is not, the line begins, or
// begins anew. The limiter then has to move its state back by the shift, which is 0 otherwise.
func (l *timeline) reach(now time.Time, offset int64) (shift int64) {
	if !l.ends(offset) {
		return 0
	}
	*l = timeline{now, true}
	return offset
}

// lapsed is before every instant of a line, by more than any charge takes to lapse.
var lapsed = mark{ns: -2 * far}

// moved returns the instant ns of a line on the line that began shift later, at least
// lapsed.
func moved(ns, shift int64) int64 { return max(ns, lapsed.ns+shift) - shift }

// asOf returns the decision as seen from an instant that is early before that of d.
func (d Decision) asOf(early time.Duration) Decision {
	if early > 0 {
		d.RetryAfter = postponed(d.RetryAfter, early)
		d.ResetAfter = postponed(d.ResetAfter, early)
	}
	return d
}

// postponed returns d as seen from ahead before; 0 stays 0.
func postponed(d, ahead time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return sum(d, ahead)
}
