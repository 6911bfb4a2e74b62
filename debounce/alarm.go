package debounce

import "time"

// alarm is one timer that is set over and over. The lock of its owner guards it, and
// ring takes that. A timer may have begun to call ring when it is turned off, and when
// it is set anew: ring has to look whether it is still set, and at the time.
type alarm struct {
	ring  func()
	timer *time.Timer // nil until it is first set
	set   bool
}

// start sets the alarm, anew if it was set.
func (a *alarm) start(after time.Duration) {
	a.set = true
	if a.timer == nil {
		a.timer = time.AfterFunc(after, a.ring)
	} else {
		a.timer.Reset(after)
	}
}

// stop turns it off.
func (a *alarm) stop() {
	if a.set {
		a.set = false
		a.timer.Stop()
	}
}

// timeLeft returns how long it is until delay has passed since the last event, or
// maxWait, if there is one, since the first.
func timeLeft(now int64, delay time.Duration, last int64, maxWait time.Duration, first int64) time.Duration {
	left := delay - time.Duration(now-last)
	if maxWait > 0 {
		left = min(left, maxWait-time.Duration(now-first))
	}
	return left
}
