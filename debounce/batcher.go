package debounce

import (
	"context"
	"time"
)

// BatcherOptions say when a [Batcher] flushes. The zero value flushes without
// delay.
type BatcherOptions struct {
	// Delay is the quiet time that ends a batch: it is flushed when nothing was added for
	// that long. Zero flushes as soon as the timer fires.
	Delay time.Duration
	// MaxWait is the longest time from the first value of a batch to its flush, which may
	// still have to wait for a running one to end. Zero is no limit; otherwise it must be
	// at least Delay.
	MaxWait time.Duration
	// MaxSize is the most values of a batch, which is flushed at once when it has them.
	// Zero is no limit.
	MaxSize int
	// OnPanic is called with the value of a panic of flush, on its goroutine and before
	// another flush begins; debug.Stack shows where it was. The batch is not flushed again.
	// Nil lets the panic end the program, or reach the caller of Flush. So does a panic in
	// OnPanic.
	OnPanic func(recovered any)
}

// Batcher collects values in the order in which they are added, and flushes them together.
// Make one with [NewBatcher]; the zero value must not be used, and a Batcher must not be
// copied.
//
// Flushes never overlap, and run on goroutines of their own, except in Flush. Each value
// that Add accepts is flushed exactly once. All methods are safe for concurrent use.
type Batcher[V any] struct {
	batches collector[[]V]
}

// NewBatcher returns a Batcher that hands its batches to flush, which may keep and change
// them.
//
// It panics if a duration or MaxSize is negative, if MaxWait is not 0 and below Delay, and
// if flush is nil.
func NewBatcher[V any](opts BatcherOptions, flush func([]V)) *Batcher[V] {
	if flush == nil {
		panic("debounce.NewBatcher: flush is nil")
	}
	b := new(Batcher[V])
	b.batches.init("debounce.NewBatcher", opts, flush)
	return b
}

// Add adds a value. It returns false after Stop, and then drops the value.
//
// It waits while a batch with MaxSize values waits for a running flush. No context ends
// that, but Stop does. With MaxSize, do not call Add within flush: if the next batch is
// full by then, the flush waits for itself.
func (b *Batcher[V]) Add(value V) bool {
	c := &b.batches
	c.mu.Lock()
	defer c.leave()
	if !c.enterLocked() {
		return false
	}
	c.batch = append(c.batch, value)
	c.addedLocked(len(c.batch))
	return true
}

// Flush flushes the batch, if there is one, and returns when that is done. While another
// flush is running it returns at once, and the batch is flushed right after that one; Stop
// waits for it.
func (b *Batcher[V]) Flush() { b.batches.flushNow() }

// Stop flushes the batch and ends adding: Add returns false, and calls that wait in it
// return false. Stop returns nil when the last flush has ended; after that none runs. If
// ctx ends first, Stop returns the error of ctx, and the last flushes may still run.
//
// Stop may be called again, to wait again. Within flush it can only wait for ctx.
func (b *Batcher[V]) Stop(ctx context.Context) error { return b.batches.stop(ctx) }
