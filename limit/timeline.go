package limit

import "time"

// timeline turns instants into nanoseconds since the first one. The zero value has not
// seen one yet.
type timeline struct {
	origin time.Time
	begun  bool
}

// far is so long that everything charged has lapsed, with room for sums in an int64.
const far = 2 * int64(maxSpan)

// at returns now in nanoseconds on the line. An instant that lies so far after the
// origin that nothing counts any more begins the line anew: anew is then true, and what
// the limiter remembers of the old line has lapsed. One that lies as far before it
// counts as that far.
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
