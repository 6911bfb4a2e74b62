package debounce

import "time"

// alarm is one timer that is set over and over. The lock of its owner guards it, and
// ring takes that.
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

// rang is what ring asks first: whether the alarm is still set. A timer that is
// turned off may have begun to call already. So may one that is set anew, and then it
// is too early: ring has to look at the time.
func (a *alarm) rang() bool {
	was := a.set
	a.set = false
	return was
}
