package adaptive

import (
	"math"
	"time"
)

// timeline turns instants into nanoseconds since the first one. The zero value has not begun.
type timeline struct {
	origin time.Time
	begun  bool
}

// far bounds the instants: 73 years. What is further from the origin moves it.
const far = int64(1) << 61

// at returns where an instant lies, and moves nothing. An instant more than far before the
// origin counts as that one, and one more than 2·far after it as that one.
func (l *timeline) at(now time.Time) int64 {
	if !l.begun {
		return 0
	}
	return min(max(int64(now.Sub(l.origin)), -far), 2*far-1)
}

// early returns how much an instant lies before the first one that counts.
func (l *timeline) early(now time.Time) time.Duration {
	if !l.begun {
		return 0
	}
	switch since := now.Sub(l.origin); {
	case since == math.MinInt64:
		return math.MaxInt64
	case int64(since) < -far:
		return -time.Duration(far) - since
	}
	return 0
}

// move makes now, which lies at, the origin, and moves the instants. What is then more than far
// before it counts as that.
func (l *timeline) move(now time.Time, at int64, instants ...*int64) {
	for _, instant := range instants {
		*instant = max(*instant-at, -far)
	}
	l.origin, l.begun = now, true
}

// later returns a wait as seen from early before; 0 stays 0.
func later(wait, early time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return min(wait, math.MaxInt64-early) + early
}
