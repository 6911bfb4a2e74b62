package limit

import (
	"math"
	"time"
)

// timeline turns instants into nanoseconds since the first one. The zero value has not
// seen one yet.
type timeline struct {
	origin time.Time
	begun  bool
}

// far is how long a line is: longer than anything takes to lapse, with room for sums in
// an int64.
const far = 2 * int64(maxSpan)

// at returns now in nanoseconds on the line, and moves nothing: what charges nothing
// leaves no trace. An instant that lies farther before the origin than far counts as far
// before it, and is so much too early; one far after the end of the line, when
// everything has lapsed, counts as that.
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

// ends reports whether the line has to begin, or to begin anew, before anything is
// charged at an instant that lies there. What the limiter remembers of the old line has
// to move to the new one.
func (l *timeline) ends(offset int64) bool { return !l.begun || offset >= far }

// lapsed is before every instant of a line by more than anything takes to lapse.
var lapsed = mark{ns: -2 * far}

// moved is the instant ns of a line on the one that began shift later. What comes to lie
// before lapsed is lapsed.
func moved(ns int64, shift time.Duration) int64 {
	return max(ns, lapsed.ns+int64(shift)) - int64(shift)
}

// asOf is a decision at the instant that an earlier one counts as, as of that.
func (d Decision) asOf(early time.Duration) Decision {
	if early > 0 {
		d.RetryAfter = postponed(d.RetryAfter, early)
		d.ResetAfter = postponed(d.ResetAfter, early)
	}
	return d
}

// postponed is what d is seen from a time that is so far before; 0 stays 0.
func postponed(d, ahead time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return sum(d, ahead)
}
