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

// at returns now in nanoseconds on the line. An instant that lies far after the origin
// begins the line anew: anew is then true, and what the limiter remembers of the old line
// has to move to the new one. An instant that lies farther before the origin than far
// counts as far before it.
func (l *timeline) at(now time.Time) (offset int64, anew bool) {
	if l.begun {
		offset = int64(now.Sub(l.origin))
		if offset < far {
			return max(offset, -far), false
		}
	}
	l.origin, l.begun = now, true
	return 0, true
}

// lapsed is before every instant of a line by more than anything takes to lapse.
var lapsed = mark{ns: -2 * far}

// moved is the instant ns of a line on the one that began shift later. What comes to lie
// before lapsed is lapsed.
func moved(ns int64, shift time.Duration) int64 {
	return max(ns, lapsed.ns+int64(shift)) - int64(shift)
}

// seenFrom returns a decision at an instant as of one that lies so far before. Times of 0
// stay 0.
func (d Decision) seenFrom(ahead time.Duration) Decision {
	if ahead > 0 {
		d.RetryAfter = postponed(d.RetryAfter, ahead)
		d.ResetAfter = postponed(d.ResetAfter, ahead)
	}
	return d
}

func postponed(d, ahead time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return ahead + min(d, math.MaxInt64-ahead)
}
