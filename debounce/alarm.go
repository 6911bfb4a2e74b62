package debounce

import (
	"math"
	"time"
)

// alarm is one timer that is set over and over. What it rings has the lock that
// guards it.
type alarm struct {
	ring  func()
	timer *time.Timer // nil until it is first set
	at    int64       // when it rings, as long as it is set
	set   bool
}

// start has the alarm ring a while after now, and not when it would have else.
func (a *alarm) start(now int64, after time.Duration) {
	a.set = true
	a.at = now + min(int64(after), math.MaxInt64-now)
	if a.timer == nil {
		a.timer = time.AfterFunc(after, a.ring)
	} else {
		a.timer.Reset(after)
	}
}

// stop has it not ring.
func (a *alarm) stop() {
	if a.set {
		a.set = false
		a.timer.Stop()
	}
}

// rang reports whether a ring is the one that the alarm was set for. A timer that
// is stopped or set again may have begun to call already.
func (a *alarm) rang(now int64) bool {
	if !a.set || now < a.at {
		return false
	}
	a.set = false
	return true
}
