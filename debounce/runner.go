package debounce

import (
	"context"
	"sync"
	"time"
)

// runner runs an action for one item at a time. Whoever embeds it shares its
// lock, under which no action is called.
type runner[T any] struct {
	mu      sync.Mutex
	action  func(T)
	onPanic func(any)
	next    func() (T, bool) // takes what is to be run when a run has ended; called with mu held
	began   time.Time        // from which instants count, in nanoseconds

	running   bool   // an action is running, or about to
	handed    T      // with what, until it begins
	hasHanded bool   // there is such an item
	begin     func() // runHanded, bound once

	work    int           // how many things Stop has to wait for, a run among them
	idle    chan struct{} // closed when there is no work; nil until Stop waits
	stopped bool
}

func (r *runner[T]) init(action func(T), onPanic func(any), next func() (T, bool)) {
	r.action, r.onPanic, r.next = action, onPanic, next
	r.began = time.Now()
	r.begin = r.runHanded
}

// now returns the present instant.
func (r *runner[T]) now() int64 { return int64(time.Since(r.began)) }

// handLocked makes an item the one that the action is about to run for. None may be
// running. The caller must then have a goroutine call begin, or call workLocked.
func (r *runner[T]) handLocked(item T) {
	r.running = true
	r.work++
	r.handed, r.hasHanded = item, true
}

// runHanded runs the action for what was handed, on a goroutine for that alone.
func (r *runner[T]) runHanded() {
	r.mu.Lock()
	if !r.hasHanded { // somebody who flushes was faster
		r.mu.Unlock()
		return
	}
	item := r.takeHandedLocked()
	r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			panic(p) // the program ends, and nobody must think before that the run is over
		}
		r.end() // also after runtime.Goexit
	}()
	r.call(item)
}

func (r *runner[T]) takeHandedLocked() (item T) {
	item, r.handed = r.handed, item
	r.hasHanded = false
	return item
}

// workLocked runs the action that is about to begin, if one is, on the caller's
// goroutine, and then what is due, if something is now. It gives up the lock.
func (r *runner[T]) workLocked(due bool) {
	if !r.hasHanded {
		r.mu.Unlock()
		return
	}
	item := r.takeHandedLocked()
	r.mu.Unlock()
	defer r.end() // also after a panic, which the caller may recover
	r.call(item)
	if !due {
		return
	}
	r.mu.Lock()
	item, due = r.next()
	r.mu.Unlock()
	if due {
		r.call(item)
	}
}

func (r *runner[T]) call(item T) {
	if r.onPanic != nil {
		defer func() {
			if p := recover(); p != nil {
				r.onPanic(p)
			}
		}()
	}
	r.action(item)
}

// end ends a run. What is to follow it has a goroutine of its own.
func (r *runner[T]) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	if item, ok := r.next(); ok {
		r.handLocked(item)
		go r.begin()
	}
	r.doneLocked()
}

// doneLocked says that a piece of work is done.
func (r *runner[T]) doneLocked() {
	if r.work--; r.work == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// waitLocked waits until there is no work, or for the context. It gives up the
// lock.
func (r *runner[T]) waitLocked(ctx context.Context) error {
	if r.work == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-idle: // both at once
		return nil
	default:
		return ctx.Err()
	}
}
