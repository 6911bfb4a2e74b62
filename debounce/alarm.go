package debounce

import "time"

// alarm is one timer that is set over and over. The lock of its owner guards it; ring takes
// that lock. The timer may already be calling ring when the alarm is stopped or set again,
// so ring has to check that the alarm is still set, and the time.
type alarm struct {
	ring  func()
	timer *time.Timer // nil until it is first needed
	set   bool
}

// start sets the alarm, again if it was set.
func (a *alarm) start(after time.Duration) {
	a.set = true
	switch {
	case after <= 0: // the race detector of Go 1.26 crashes now and then on such a timer in a bubble
		go a.ring()
	case a.timer == nil:
		a.timer = time.AfterFunc(after, a.ring)
	default:
		a.timer.Reset(after)
	}
}

// stop turns the alarm off.
func (a *alarm) stop() {
	if a.set && a.timer != nil {
		a.timer.Stop()
	}
	a.set = false
}

// timeLeft returns how long it takes until delay has passed since the last event or, if
// maxWait is not 0, maxWait since the first.
func timeLeft(now int64, delay time.Duration, last int64, maxWait time.Duration, first int64) time.Duration {
	left := delay - time.Duration(now-last)
	if maxWait > 0 {
		left = min(left, maxWait-time.Duration(now-first))
	}
	return left
}
