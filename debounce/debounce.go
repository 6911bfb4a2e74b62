// Package debounce turns many events into few actions: once after a burst of events, at
// most once per interval, or in batches. Package ratelimit saves its state with it.
//
//   - A [Debouncer] runs an action with the last value of a burst, after a quiet time:
//     search as you type, reload a configuration.
//   - A throttle, a Debouncer made with [NewThrottle], runs an action at most once per
//     interval while values keep coming: redraw, report progress.
//   - A [Coalescer] collects values by key, and a [Batcher] in a list; both hand them on
//     together: invalidate caches, write rows.
//
// None of them keeps a goroutine while there is nothing to do. Each runs one action at a
// time, never under a lock, and ends with Stop: once that has returned nil, no action runs.
// They follow the monotonic clock.
package debounce

import (
	"context"
	"fmt"
	"time"
)

// Options say when a [Debouncer] runs its action. The zero value runs it on the
// trailing edge, without delay.
type Options struct {
	// Delay is the quiet time that ends a burst: it is over when no value came for that
	// long. Zero ends it as soon as the timer fires.
	Delay time.Duration
	// MaxWait is the longest time for which a burst may put the action off, counted from
	// its first value and then from the last run. As in lodash, the run after that comes no
	// sooner than Delay after the value that follows. Zero is no limit; otherwise it must
	// be at least Delay.
	MaxWait time.Duration
	// Leading runs the action with the first value of a burst, at once.
	Leading bool
	// Trailing runs the action with the last value of a burst, when the burst or MaxWait is
	// over; together with Leading only if more than one value came. If neither is set,
	// Trailing is the default.
	Trailing bool
	// DropOnStop makes Stop drop the pending value. Otherwise Stop runs the action with it.
	DropOnStop bool
	// OnPanic is called with the value of a panic of the action, on its goroutine and
	// before another run begins; debug.Stack shows where it was. Nil lets the panic end the
	// program, or reach the caller of Flush. So does a panic in OnPanic.
	OnPanic func(recovered any)
}

// Debouncer runs an action with the last value of each burst of values. Make one with [New]
// or [NewThrottle]: the zero value must not be used, and a Debouncer must not be copied.
// For events without a value, use Debouncer[struct{}].
//
// Runs never overlap, keep the order of their values, and have goroutines of their own,
// except in Flush. A run that is due while another one is under way comes right after that;
// if more become due meanwhile, there is one run, with the last value. No reference to a
// value is kept after its run.
//
// All methods are safe for concurrent use, also from within the action.
type Debouncer[T any] struct {
	runner            runner[T]
	delay, maxWait    time.Duration
	leading, trailing bool
	drop              bool // Stop drops the pending value

	value    T // the last of the burst, until the trailing edge
	hasValue bool
	due      T // the value whose edge came while an action was running
	hasDue   bool

	alarm       alarm // set as long as a burst lasts
	triggered   bool  // there was a trigger since the last Cancel
	lastTrigger int64 // when the last trigger was
	lastRun     int64 // when the last run or, if later, the burst began
}

// New returns a Debouncer that runs action according to opts. It follows debounce of lodash
// 4 to the instant, except that a run that was delayed by another one counts from when it
// begins.
//
// It panics if a duration is negative, if MaxWait is not 0 and below Delay, and if action
// is nil.
func New[T any](opts Options, action func(T)) *Debouncer[T] {
	checkDurations("debounce.New", opts.Delay, opts.MaxWait)
	if action == nil {
		panic("debounce.New: action is nil")
	}
	d := &Debouncer[T]{
		delay:    opts.Delay,
		maxWait:  opts.MaxWait,
		leading:  opts.Leading,
		trailing: opts.Trailing || !opts.Leading,
		drop:     opts.DropOnStop,
	}
	d.runner.init(action, opts.OnPanic, d.takeDueLocked)
	d.alarm.ring = d.expire
	return d
}

func checkDurations(operation string, delay, maxWait time.Duration) {
	switch {
	case delay < 0:
		panic(fmt.Sprintf("%s: Delay is %v, want 0 or more", operation, delay))
	case maxWait < 0:
		panic(fmt.Sprintf("%s: MaxWait is %v, want 0 or more", operation, maxWait))
	case maxWait > 0 && maxWait < delay:
		panic(fmt.Sprintf("%s: MaxWait is %v, want 0 or at least Delay, which is %v", operation, maxWait, delay))
	}
}

// Trigger adds a value to the burst, in place of a pending one. It never blocks. After Stop
// it does nothing.
func (d *Debouncer[T]) Trigger(v T) {
	d.runner.mu.Lock()
	defer d.runner.mu.Unlock()
	if d.runner.stopped {
		return
	}
	now := d.runner.now()
	over := d.overLocked(now)
	d.triggered, d.lastTrigger = true, now
	first := over && !d.alarm.set
	if first {
		d.lastRun = now // MaxWait counts from here, even if v is not run now
	}
	if !d.alarm.set {
		d.alarm.start(d.delay)
	}
	switch {
	case first && d.leading:
		d.runLocked(v)
	case over && !first && d.maxWait > 0: // MaxWait is over, and the alarm has not rung yet
		d.lastRun = now
		d.dropValueLocked()
		d.runLocked(v)
	case d.trailing:
		d.value, d.hasValue = v, true
	}
}

// overLocked reports whether the burst is over: by Delay, by MaxWait, or because there was
// no trigger.
func (d *Debouncer[T]) overLocked(now int64) bool {
	return !d.triggered || d.leftLocked(now) <= 0
}

// leftLocked returns how long the burst lasts without another trigger.
func (d *Debouncer[T]) leftLocked(now int64) time.Duration {
	return timeLeft(now, d.delay, d.lastTrigger, d.maxWait, d.lastRun)
}

// expire is called when the alarm rings. Triggers do not move the alarm, which would cost
// more than the rest of a Trigger; expire sets it again for the time that is left.
func (d *Debouncer[T]) expire() {
	d.runner.mu.Lock()
	defer d.runner.mu.Unlock()
	now := d.runner.now()
	switch {
	case !d.alarm.set:
	case d.overLocked(now):
		if v, ok := d.endBurstLocked(now); ok {
			d.runLocked(v)
		}
	default:
		d.alarm.start(d.leftLocked(now))
	}
}

// endBurstLocked ends the burst, and returns the value to run now, if there is one.
func (d *Debouncer[T]) endBurstLocked(now int64) (v T, ok bool) {
	d.alarm.stop()
	if !d.hasValue {
		return v, false
	}
	d.lastRun = now
	return d.dropValueLocked(), true
}

// runLocked runs the action with v as soon as it can.
func (d *Debouncer[T]) runLocked(v T) {
	if d.handOrWaitLocked(v) {
		go d.runner.begin()
	}
}

// handOrWaitLocked hands v to the runner, or makes it due if an action is running.
func (d *Debouncer[T]) handOrWaitLocked(v T) (handed bool) {
	if d.runner.running {
		d.due, d.hasDue = v, true
		return false
	}
	d.runner.handLocked(v)
	return true
}

// takeDueLocked takes the value that is due, if there is one. The runner calls it at the
// end of a run.
func (d *Debouncer[T]) takeDueLocked() (v T, ok bool) {
	if !d.hasDue {
		return v, false
	}
	d.lastRun = d.runner.now()
	return d.dropDueLocked(), true
}

func (d *Debouncer[T]) dropValueLocked() (v T) {
	v, d.value = d.value, v
	d.hasValue = false
	return v
}

func (d *Debouncer[T]) dropDueLocked() (v T) {
	v, d.due = d.due, v
	d.hasDue = false
	return v
}

// Flush runs the action with the pending value, if there is one, and returns when that is
// done. While an action is running it returns at once, and the value is run right after.
// The burst goes on: a value within Delay of its last one does not begin another burst.
func (d *Debouncer[T]) Flush() {
	d.runner.mu.Lock()
	if v, ok := d.endBurstLocked(d.runner.now()); ok {
		d.handOrWaitLocked(v)
	}
	d.runner.workLocked(d.hasDue)
}

// Cancel drops the pending value, even if it only waits for another run to end, and ends
// the burst. It does not end an action that is running or has been started.
func (d *Debouncer[T]) Cancel() {
	d.runner.mu.Lock()
	defer d.runner.mu.Unlock()
	d.cancelLocked()
}

func (d *Debouncer[T]) cancelLocked() {
	d.alarm.stop()
	d.dropValueLocked()
	d.dropDueLocked()
	d.triggered = false
}

// Pending reports whether a value waits for its time, or for another run to end.
func (d *Debouncer[T]) Pending() bool {
	d.runner.mu.Lock()
	defer d.runner.mu.Unlock()
	return d.hasValue || d.hasDue
}

// Stop ends the Debouncer: it runs the action with the pending value now, or with
// DropOnStop drops it, and later Triggers do nothing. Stop returns nil when the last action
// has ended; after that none runs. If ctx ends first, Stop returns the error of ctx, and
// the last actions may still run.
//
// Stop may be called again, to wait again. Within the action it can only wait for ctx.
func (d *Debouncer[T]) Stop(ctx context.Context) error {
	d.runner.mu.Lock()
	d.runner.stopped = true
	if d.drop {
		d.cancelLocked()
	} else if v, ok := d.endBurstLocked(d.runner.now()); ok {
		d.runLocked(v)
	}
	return d.runner.waitLocked(ctx)
}
