package debounce

import "time"

// BatcherOptions say when a [Batcher] flushes. The zero value flushes without
// delay.
type BatcherOptions struct {
	// Delay is how long nothing must be added for a batch to be flushed.
	Delay time.Duration
	// MaxWait is how long after its first value a batch is flushed, if not before.
	// Zero is no limit; else it must not be below Delay.
	MaxWait time.Duration
	// MaxSize is how many values a batch may have. The one that reaches it has it
	// flushed at once. Zero is no limit.
	MaxSize int
	// OnPanic is called with what flush panicked with, on its goroutine and before
	// another flush begins; debug.Stack tells where it was. The batch is not flushed again.
	// Nil lets the panic end the program, or reach the caller of Flush.
	OnPanic func(recovered any)
}

// Batcher collects values in the order in which they are added, and flushes them
// together. Make one with [NewBatcher]; a Batcher must not be copied.
//
// Flushes never overlap, and run on goroutines of their own. What Add took is
// flushed exactly once. All methods are safe for concurrent use.
type Batcher[V any] struct {
	collector[[]V]
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
	b.init("debounce.NewBatcher", flush, opts.Delay, opts.MaxWait, opts.MaxSize, opts.OnPanic)
	return b
}

// Add adds a value. It reports whether it was taken, which it is not after Stop.
//
// It waits while a batch with MaxSize values waits for a running flush. So whoever
// adds from within a flush must not add more than MaxSize values there.
func (b *Batcher[V]) Add(value V) bool {
	b.mu.Lock()
	defer b.leave()
	if !b.enterLocked() {
		return false
	}
	b.batch = append(b.batch, value)
	b.addedLocked(len(b.batch))
	return true
}
