package debounce

import "time"

// alarm is one timer that is set over and over. What it rings has the lock that
// guards it.
type alarm struct {
	ring  func()
	timer *time.Timer // nil until it is first set
	set   bool
}

// start has the alarm ring after a while, and not when it would have else.
func (a *alarm) start(after time.Duration) {
	a.set = true
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

// rang is called first when it rings, and reports whether it was to. A timer that is
// stopped may have begun to call already. So may one that is started again, and then
// this is too early: whoever is called looks at the time.
func (a *alarm) rang() bool {
	was := a.set
	a.set = false
	return was
}
