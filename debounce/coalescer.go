package debounce

import "time"

// CoalescerOptions say when a [Coalescer] flushes. The zero value flushes without
// delay.
type CoalescerOptions[V any] struct {
	// Delay is how long nothing must be added for a batch to be flushed.
	Delay time.Duration
	// MaxWait is how long after its first item a batch is flushed, if not before.
	// Zero is no limit; else it must not be below Delay.
	MaxWait time.Duration
	// MaxSize is how many keys a batch may have. The one that reaches it has it
	// flushed at once. Zero is no limit.
	MaxSize int
	// Merge makes one value of the one that a batch has for a key and one that is
	// added for it. It is called by Add, one call at a time, in the order in which
	// values are added, and may change old. It must not call the Coalescer. If it
	// panics, the batch stays as it is. Nil takes the one that is added.
	Merge func(old, new V) V
	// OnPanic is called with what flush panicked with, on its goroutine and before
	// another flush begins; debug.Stack tells where it was. The batch is not flushed again.
	// Nil lets the panic end the program, or reach the caller of Flush.
	OnPanic func(recovered any)
}

// Coalescer collects values by key, and flushes them together. Make one with
// [NewCoalescer]; a Coalescer must not be copied.
//
// Flushes never overlap, and run on goroutines of their own. What Add took is
// flushed exactly once. All methods are safe for concurrent use.
type Coalescer[K comparable, V any] struct {
	collector[map[K]V]
	merge func(old, new V) V
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
	c.init("debounce.NewCoalescer", flush, opts.Delay, opts.MaxWait, opts.MaxSize, opts.OnPanic)
	return c
}

// Add adds a value under a key. It reports whether it was taken, which it is not
// after Stop.
//
// It waits while a batch with MaxSize keys waits for a running flush. So whoever
// adds from within a flush must not add more than MaxSize keys there.
func (c *Coalescer[K, V]) Add(key K, value V) bool {
	c.mu.Lock()
	defer c.leave()
	if !c.enterLocked() {
		return false
	}
	if c.merge != nil {
		if old, ok := c.batch[key]; ok {
			c.mergeLocked(key, old, value)
			return true
		}
	}
	if c.batch == nil {
		c.batch = make(map[K]V)
	}
	c.batch[key] = value
	c.addedLocked(len(c.batch))
	return true
}

// mergeLocked gives up the lock while it merges.
func (c *Coalescer[K, V]) mergeLocked(key K, old, value V) {
	c.beginMergeLocked()
	defer c.endMergeLocked()
	func() {
		defer c.mu.Lock()
		value = c.merge(old, value)
	}()
	c.batch[key] = value
	c.addedLocked(len(c.batch))
}
