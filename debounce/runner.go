package debounce

import (
	"context"
	"sync"
	"time"
)

// runner runs an action for one item at a time. The types that are made of it share its
// lock, under which no action is called.
type runner[T any] struct {
	mu      sync.Mutex
	action  func(T)
	onPanic func(any)
	next    func() (T, bool) // takes the item to run after a run; called with mu held
	began   time.Time        // instants are nanoseconds since

	running   bool   // an action is running, or about to
	handed    T      // the item of an action that is about to run
	hasHanded bool   // there is such an item
	begin     func() // runHanded, bound once

	work    int           // number of runs and merges for which Stop has to wait
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

// handLocked makes item the one for which the action is about to run. No action may be
// running. The caller must then call begin on a new goroutine, or workLocked.
func (r *runner[T]) handLocked(item T) {
	r.running = true
	r.work++
	r.handed, r.hasHanded = item, true
}

// runHanded runs the action for the handed item, on a goroutine of its own.
func (r *runner[T]) runHanded() {
	r.mu.Lock()
	if !r.hasHanded { // a Flush was faster
		r.mu.Unlock()
		return
	}
	item := r.takeHandedLocked()
	r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			panic(p) // ends the program; until then the run must not look over
		}
		r.end() // even after runtime.Goexit
	}()
	r.call(item)
}

func (r *runner[T]) takeHandedLocked() (item T) {
	item, r.handed = r.handed, item
	r.hasHanded = false
	return item
}

// workLocked runs the action that is about to begin, if there is one, on the goroutine of
// the caller, and after it, with due, the item that is due by then. It unlocks.
func (r *runner[T]) workLocked(due bool) {
	if !r.hasHanded {
		r.mu.Unlock()
		return
	}
	item := r.takeHandedLocked()
	r.mu.Unlock()
	defer r.end() // even after a panic, which the caller may recover
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

// end ends a run. The next run, if there is one, begins on a goroutine of its own.
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

// doneLocked records that a run or a merge is done.
func (r *runner[T]) doneLocked() {
	if r.work--; r.work == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// waitLocked unlocks, and waits until there is no work, or until the context ends.
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
