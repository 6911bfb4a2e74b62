package debounce

import (
	"context"
	"time"
)

// CoalescerOptions say when a [Coalescer] flushes. The zero value flushes without
// delay.
type CoalescerOptions[V any] struct {
	// Delay is the quiet time that ends a batch: it is flushed when nothing was added for
	// that long. Zero flushes as soon as the timer fires.
	Delay time.Duration
	// MaxWait is the longest time from the first item of a batch to its flush, which may
	// still have to wait for a running one to end. Zero is no limit; otherwise it must be
	// at least Delay.
	MaxWait time.Duration
	// MaxSize is the most keys of a batch, which is flushed at once when it has them. Zero
	// is no limit.
	MaxSize int
	// Merge combines the value that a batch has for a key with one that is added for the
	// key. Add calls it, one call at a time, in the order in which values are added. It may
	// change old, and must not call the Coalescer. If it panics, the panic reaches the
	// caller of Add, and the batch stays as it is. Nil keeps the value that was added last.
	Merge func(old, new V) V
	// OnPanic is called with the value of a panic of flush, on its goroutine and before
	// another flush begins; debug.Stack shows where it was. The batch is not flushed again.
	// Nil lets the panic end the program, or reach the caller of Flush. So does a panic in
	// OnPanic.
	OnPanic func(recovered any)
}

// Coalescer collects values by key, and flushes them together. Make one with
// [NewCoalescer]; the zero value must not be used, and a Coalescer must not be copied.
//
// Flushes never overlap, and run on goroutines of their own, except in Flush. Each value
// that Add accepts is flushed exactly once. All methods are safe for concurrent use.
type Coalescer[K comparable, V any] struct {
	batches collector[map[K]V]
	merge   func(old, new V) V
}

// NewCoalescer returns a Coalescer that hands its batches to flush, which may keep and
// change them.
//
// It panics if a duration or MaxSize is negative, if MaxWait is not 0 and below Delay, and
// if flush is nil.
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

// Add adds a value under a key. It returns false after Stop, and then drops the value.
//
// It waits while a batch with MaxSize keys waits for a running flush. No context ends that,
// but Stop does. With MaxSize, do not call Add within flush: if the next batch is full by
// then, the flush waits for itself.
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

// mergeLocked merges value into the batch. It gives up the lock while Merge runs.
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

// Flush flushes the batch, if there is one, and returns when that is done. While another
// flush is running it returns at once, and the batch is flushed right after that one; Stop
// waits for it.
func (c *Coalescer[K, V]) Flush() { c.batches.flushNow() }

// Stop flushes the batch and ends adding: Add returns false, and calls that wait in it
// return false. Stop returns nil when the last flush has ended; after that none runs. If
// ctx ends first, Stop returns the error of ctx, and the last flushes may still run.
//
// Stop may be called again, to wait again. Within flush it can only wait for ctx.
func (c *Coalescer[K, V]) Stop(ctx context.Context) error { return c.batches.stop(ctx) }
