package debounce

import (
	"context"
	"time"
)

// CoalescerOptions say when a [Coalescer] flushes. The zero value flushes without
// delay.
type CoalescerOptions[V any] struct {
	// Delay is the quiet after which a batch is flushed: nothing has been added for
	// that long. Zero flushes as soon as the timer rings.
	Delay time.Duration
	// MaxWait is how long after its first item a batch is flushed, if not before,
	// or as soon as a running flush has ended. Zero is no limit; otherwise it must be
	// at least Delay.
	MaxWait time.Duration
	// MaxSize is how many keys a batch may have. A batch that has them is
	// flushed at once. Zero is no limit.
	MaxSize int
	// Merge makes one value of the one that a batch has for a key and one that is
	// added for it. It is called by Add, one call at a time, in the order in which
	// values are added, and may change old. It must not call the Coalescer. If it
	// panics, the caller of Add has the panic, and the batch stays as it is. Nil takes
	// the one that is added.
	Merge func(old, new V) V
	// OnPanic is called with what flush panicked with, on its goroutine and before
	// another flush begins; debug.Stack tells where it was. The batch is not flushed again.
	// Nil lets the panic end the program, or reach the caller of Flush. So does a panic
	// in OnPanic.
	OnPanic func(recovered any)
}

// Coalescer collects values by key, and flushes them together. Make one with
// [NewCoalescer]; the zero value is of no use, and a Coalescer must not be
// copied.
//
// Flushes never overlap, and run on goroutines of their own but in Flush. What Add
// took is flushed exactly once. All methods are safe for concurrent use.
type Coalescer[K comparable, V any] struct {
	batches collector[map[K]V]
	merge   func(old, new V) V
}

// NewCoalescer returns a Coalescer that hands its batches to flush, which may keep
// and change them.
//
// It panics when a duration or MaxSize is negative, when MaxWait is below Delay,
// and when flush is nil.
func NewCoalescer[K comparable, V any](opts CoalescerOptions[V], flush func(map[K]V)) *Coalescer[K, V] {
	if flush == nil {
		panic("debounce.NewCoalescer: flush is nil")
	}
	c := &Coalescer[K, V]{merge: opts.Merge}
	c.batches.init("debounce.NewCoalescer", BatcherOptions{
		Delay: opts.Delay, MaxWait: opts.MaxWait, MaxSize: opts.MaxSize, OnPanic: opts.OnPanic,
	}, flush)
	return c
}

// Add adds a value under a key. It returns false after Stop, and then the value is in
// no batch.
//
// It waits while a batch with MaxSize keys waits for a running flush. There is
// no context to end that, but Stop does. With MaxSize, do not add from within a flush:
// if the next batch is full by then, the flush waits for itself.
func (c *Coalescer[K, V]) Add(key K, value V) bool {
	b := &c.batches
	b.mu.Lock()
	defer b.leave()
	if !b.enterLocked() {
		return false
	}
	if c.merge != nil {
		if old, ok := b.batch[key]; ok {
			c.mergeLocked(key, old, value)
			return true
		}
	}
	if b.batch == nil {
		b.batch = make(map[K]V)
	}
	b.batch[key] = value
	b.addedLocked(len(b.batch))
	return true
}

// mergeLocked gives up the lock while it merges.
func (c *Coalescer[K, V]) mergeLocked(key K, old, value V) {
	b := &c.batches
	b.beginMergeLocked()
	defer b.endMergeLocked()
	func() {
		defer b.mu.Lock()
		value = c.merge(old, value)
	}()
	b.batch[key] = value
	b.addedLocked(len(b.batch))
}

// Flush flushes what was added, if anything, and returns when that is done. But
// while a flush is running it returns at once, and what was added is flushed right
// after; Stop waits for that.
func (c *Coalescer[K, V]) Flush() { c.batches.flushNow() }

// Stop flushes what was added and accepts no more: Add returns false, also to those
// who wait in it. Stop returns nil when the last flush has ended; after that none
// runs. If ctx ends before, Stop returns the error of ctx, and the last flushes may
// still run.
//
// Stop may be called again, to wait again. Within a flush it can only wait for
// ctx.
func (c *Coalescer[K, V]) Stop(ctx context.Context) error { return c.batches.stop(ctx) }
