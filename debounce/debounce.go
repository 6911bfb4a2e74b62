// Package debounce turns many events into few actions: once a burst of events is
// over, at most once per interval, or in batches.
//
//   - A [Debouncer] runs an action with the last value of a burst, when nothing
//     came for a while: search as you type, reload a configuration.
//   - A throttle, a Debouncer made with [NewThrottle], runs it at most once per
//     interval while values keep coming: redraw, report progress.
//   - A [Coalescer] collects values by key, and a [Batcher] in a list, and both
//     hand them on together: invalidate caches, write rows.
//
// All of them keep no goroutine while there is nothing to do, and run one action
// at a time and never under a lock. They end with Stop: once it has returned nil, no
// action runs. Time is that of the monotonic clock.
package debounce

import (
	"context"
	"fmt"
	"time"
)

// Options say when a [Debouncer] runs its action. The zero value runs it on the
// trailing edge, without delay.
type Options struct {
	// Delay ends a burst: it is over when no value has come for that long. Zero ends
	// it as soon as the timer rings.
	Delay time.Duration
	// MaxWait is the longest that a burst may put the action off, counted from its
	// first value and then from the last run. As in lodash, the run after that comes
	// no sooner than Delay after the value that follows. Zero is no limit; otherwise
	// it must be at least Delay.
	MaxWait time.Duration
	// Leading runs the action with the first value of a burst, at once.
	Leading bool
	// Trailing runs the action with the last value of a burst, when the burst or
	// MaxWait is over; together with Leading only if more than one value came. With
	// neither set, Trailing is.
	Trailing bool
	// DropOnStop makes Stop forget the value that waits. Otherwise Stop runs it.
	DropOnStop bool
	// OnPanic is called with what the action panicked with, on its goroutine and
	// before another run begins; debug.Stack tells where it was. Nil lets the panic
	// end the program, or reach the caller of Flush. So does a panic in OnPanic.
	OnPanic func(recovered any)
}

// Debouncer runs an action with the last value of each burst of values. Make one
// with [New] or [NewThrottle]: the zero value is of no use, and a Debouncer must not
// be copied. Without a value to hand on, use Debouncer[struct{}].
//
// Runs never overlap and keep the order of their values, on goroutines of their own
// but in Flush. If it is time for one while another is under way, it comes right
// after that, and if it is time again by then, only the last value is used. No
// reference to a value is kept after its run.
//
// All methods are safe for concurrent use, also from within the action.
type Debouncer[T any] struct {
	runner            runner[T]
	delay, maxWait    time.Duration
	leading, trailing bool
	drop              bool // what waits, in Stop

	value    T // the last of the burst, while it waits for the trailing edge
	hasValue bool
	due      T // whose edge came while an action was running
	hasDue   bool

	alarm       alarm // set as long as a burst lasts
	triggered   bool  // there is a last trigger
	lastTrigger int64 // when that was
	lastRun     int64 // when the last run began, or the burst
}

// New returns a Debouncer that runs action as opts say. It follows debounce of
// lodash 4 to the instant, but that a run which another one delays counts from
// when it begins.
//
// It panics when a duration is negative, when MaxWait is below Delay, and when
// action is nil.
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

// Trigger brings a value, which takes the place of one that waits. It never blocks.
// After Stop it does nothing.
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
		d.lastRun = now // from which MaxWait counts, also if v is not run now
	}
	if !d.alarm.set {
		d.alarm.start(d.delay)
	}
	switch {
	case first && d.leading:
		d.runLocked(v)
	case over && !first && d.maxWait > 0: // MaxWait is over, and the alarm has not noticed
		d.lastRun = now
		d.dropValueLocked()
		d.runLocked(v)
	case d.trailing:
		d.value, d.hasValue = v, true
	}
}

// overLocked reports whether the burst is over, by its last trigger or by MaxWait.
func (d *Debouncer[T]) overLocked(now int64) bool {
	return !d.triggered || d.leftLocked(now) <= 0
}

// leftLocked returns how long the burst lasts if nothing more is triggered.
func (d *Debouncer[T]) leftLocked(now int64) time.Duration {
	return timeLeft(now, d.delay, d.lastTrigger, d.maxWait, d.lastRun)
}

// expire is called when the alarm rings. Triggers do not move the alarm, which
// would cost more than all the rest of them; it is set again here, for what is
// left.
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

// endBurstLocked returns the value that is to be run now, if there is one.
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

// handOrWaitLocked hands v to the runner, or has it wait for the action that is
// running.
func (d *Debouncer[T]) handOrWaitLocked(v T) (handed bool) {
	if d.runner.running {
		d.due, d.hasDue = v, true
		return false
	}
	d.runner.handLocked(v)
	return true
}

// takeDueLocked is what the runner asks at the end of a run.
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

// Flush runs the action with the value that waits, if any, and returns when that
// is done. While an action is running it returns at once, and the value follows
// right after. The burst goes on: what comes within Delay of its last value does
// not count as the first of another.
func (d *Debouncer[T]) Flush() {
	d.runner.mu.Lock()
	if v, ok := d.endBurstLocked(d.runner.now()); ok {
		d.handOrWaitLocked(v)
	}
	d.runner.workLocked(d.hasDue)
}

// Cancel forgets the value that waits, also for another run to end, and the burst.
// It does not end an action that is running or has been started.
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

// Pending reports whether a value waits, for its time or for another run to end.
func (d *Debouncer[T]) Pending() bool {
	d.runner.mu.Lock()
	defer d.runner.mu.Unlock()
	return d.hasValue || d.hasDue
}

// Stop ends the Debouncer: the value that waits is run now, or forgotten with
// DropOnStop, and later ones do nothing. Stop returns nil when the last action has
// ended; after that none runs. If ctx ends before, Stop returns the error of ctx, and
// the last actions may still run.
//
// Stop may be called again, to wait again. Within the action it can only wait for
// ctx.
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
