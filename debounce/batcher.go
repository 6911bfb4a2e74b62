package debounce

import (
	"context"
	"time"
)

// BatcherOptions say when a [Batcher] flushes. The zero value flushes without
// delay.
type BatcherOptions struct {
	// Delay is the quiet after which a batch is flushed: nothing has been added for
	// that long. Zero flushes as soon as the timer rings.
	Delay time.Duration
	// MaxWait is how long after its first value a batch is flushed, if not before,
	// or as soon as a running flush has ended. Zero is no limit; otherwise it must be
	// at least Delay.
	MaxWait time.Duration
	// MaxSize is how many values a batch may have. A batch that has them is
	// flushed at once. Zero is no limit.
	MaxSize int
	// OnPanic is called with what flush panicked with, on its goroutine and before
	// another flush begins; debug.Stack tells where it was. The batch is not flushed again.
	// Nil lets the panic end the program, or reach the caller of Flush. So does a panic
	// in OnPanic.
	OnPanic func(recovered any)
}

// Batcher collects values in the order in which they are added, and flushes them
// together. Make one with [NewBatcher]; the zero value is of no use, and a Batcher must not
// be copied.
//
// Flushes never overlap, and run on goroutines of their own but in Flush. What Add
// took is flushed exactly once. All methods are safe for concurrent use.
type Batcher[V any] struct {
	batches collector[[]V]
}

// NewBatcher returns a Batcher that hands its batches to flush, which may keep and
// change them.
//
// It panics when a duration or MaxSize is negative, when MaxWait is below Delay,
// and when flush is nil.
func NewBatcher[V any](opts BatcherOptions, flush func([]V)) *Batcher[V] {
	if flush == nil {
		panic("debounce.NewBatcher: flush is nil")
	}
	b := new(Batcher[V])
	b.batches.init("debounce.NewBatcher", opts, flush)
	return b
}

// Add adds a value. It returns false after Stop, and then the value is in no batch.
//
// It waits while a batch with MaxSize values waits for a running flush. There is
// no context to end that, but Stop does. With MaxSize, do not add from within a flush:
// if the next batch is full by then, the flush waits for itself.
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

// Flush flushes what was added, if anything, and returns when that is done. But
// while a flush is running it returns at once, and what was added is flushed right
// after; Stop waits for that.
func (b *Batcher[V]) Flush() { b.batches.flushNow() }

// Stop flushes what was added and accepts no more: Add returns false, also to those
// who wait in it. Stop returns nil when the last flush has ended; after that none
// runs. If ctx ends before, Stop returns the error of ctx, and the last flushes may
// still run.
//
// Stop may be called again, to wait again. Within a flush it can only wait for
// ctx.
func (b *Batcher[V]) Stop(ctx context.Context) error { return b.batches.stop(ctx) }
