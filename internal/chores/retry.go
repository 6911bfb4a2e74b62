package chores

import "time"

// retryTimer calls a function again after a failure, with pauses that double as failures follow
// each other. A Saver retries its writes with it. A lock of its owner guards it; the function is
// called on a goroutine of its own, without that lock.
type retryTimer struct {
	first, last time.Duration
	run         func()
	timer       *time.Timer   // nil before the first failure
	pause       time.Duration // after the last failure; 0 after a success
	stopped     bool
}

// newRetryTimer returns a retryTimer whose pauses double from the first to the last. If first is
// longer than last, all pauses are first.
func newRetryTimer(first, last time.Duration, run func()) *retryTimer {
	return &retryTimer{first: first, last: last, run: run}
}

// Failed notes a failure, and has the function called after a pause in place of any earlier one.
func (t *retryTimer) Failed() {
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
func (t *retryTimer) Succeeded() {
	t.pause = 0
	if t.timer != nil {
		t.timer.Stop()
	}
}

// Stop is Succeeded for good: failures are not noted any more.
func (t *retryTimer) Stop() {
	t.stopped = true
	t.Succeeded()
}
