// Package retry calls a function again after a failure, with pauses that double as failures
// follow each other. The saver in internal/autosave retries its writes with it.
package retry

import "time"

// Timer calls a function some time after a failure. A lock of its owner guards it; the function
// is called on a goroutine of its own, without that lock.
type Timer struct {
	first, last time.Duration
	run         func()
	timer       *time.Timer   // nil before the first failure
	pause       time.Duration // after the last failure; 0 after a success
	stopped     bool
}

// New returns a Timer whose pauses double from the first to the last. If first is longer than last,
// all pauses are first.
func New(first, last time.Duration, run func()) *Timer {
	return &Timer{first: first, last: last, run: run}
}

// Failed notes a failure, and has the function called after a pause in place of any earlier one.
func (t *Timer) Failed() {
	if t.stopped {
		return
	}
	t.pause = max(min(2*t.pause, t.last), t.first)
	if t.timer == nil {
		t.timer = time.AfterFunc(t.pause, t.run)
	} else {
		t.timer.Reset(t.pause)
	}
}

// Succeeded ends the pause, so that the function is not called, and has the next failure begin
// with the first pause. The function may be about to run all the same.
func (t *Timer) Succeeded() {
	t.pause = 0
	if t.timer != nil {
		t.timer.Stop()
	}
}

// Stop is Succeeded for good: failures are not noted any more.
func (t *Timer) Stop() {
	t.stopped = true
	t.Succeeded()
}
