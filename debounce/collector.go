package debounce

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// collector gathers items in a batch, and has one batch flushed at a time. Coalescer and
// Batcher are made of it.
type collector[B any] struct {
	runner[B]
	delay, maxWait time.Duration
	maxSize        int // of a batch; 0 is no limit

	batch   B
	size    int       // of batch
	first   int64     // when its first item came
	last    int64     // when its last item came
	due     bool      // to be flushed as soon as it can be
	merging bool      // an Add is merging into it, without the lock
	alarm   alarm     // set from its first item until it is due
	room    sync.Cond // where Adds wait, each for the one before it to leave

	// merged is where Flush waits for a merge. On room an Add could take its signal.
	merged sync.Cond
}

func (c *collector[B]) init(operation string, opts BatcherOptions, flush func(B)) {
	checkDurations(operation, opts.Delay, opts.MaxWait)
	if opts.MaxSize < 0 {
		panic(fmt.Sprintf("%s: MaxSize is %d, want 0 or more", operation, opts.MaxSize))
	}
	c.delay, c.maxWait, c.maxSize = opts.Delay, opts.MaxWait, opts.MaxSize
	c.runner.init(flush, opts.OnPanic, c.takeDueLocked)
	c.alarm.ring = c.expire
	c.room.L = &c.mu
	c.merged.L = &c.mu
}

// fullLocked reports whether the batch can take no more items.
func (c *collector[B]) fullLocked() bool { return c.maxSize > 0 && c.size >= c.maxSize }

// enterLocked waits until the batch can take an item. It reports false after Stop.
func (c *collector[B]) enterLocked() bool {
	for !c.stopped && (c.fullLocked() || c.merging) {
		c.room.Wait()
	}
	return !c.stopped
}

// leave lets the next Add in if there is room, and unlocks. Each Add wakes only one other,
// so a single place never wakes all, and none is woken just to queue again at the end.
func (c *collector[B]) leave() {
	if !c.fullLocked() && !c.merging {
		c.room.Signal()
	}
	c.mu.Unlock()
}

// addedLocked records that an item was added, which made the batch size items large.
func (c *collector[B]) addedLocked(size int) {
	now := c.now()
	if c.size == 0 {
		c.first = now
	}
	c.size, c.last = size, now
	switch {
	case c.fullLocked():
		c.flushLocked()
	case !c.due && !c.alarm.set:
		c.alarm.start(c.delay)
	}
}

// expire is called when the alarm rings. Items do not move the alarm; expire sets it again
// for the time that is left.
func (c *collector[B]) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alarm.set {
		return
	}
	if left := timeLeft(c.now(), c.delay, c.last, c.maxWait, c.first); left > 0 {
		c.alarm.start(left)
		return
	}
	c.flushLocked()
}

// flushLocked flushes the batch as soon as it can be.
func (c *collector[B]) flushLocked() {
	if c.handOrWaitLocked() {
		go c.begin()
	}
}

// handOrWaitLocked hands the batch to the runner, or leaves it due if a flush is running.
func (c *collector[B]) handOrWaitLocked() (handed bool) {
	c.alarm.stop()
	c.due = c.size > 0
	if c.running {
		return false
	}
	batch, ok := c.takeDueLocked()
	if ok {
		c.handLocked(batch)
	}
	return ok
}

// takeDueLocked takes the batch if it is due. The runner calls it at the end of a flush.
func (c *collector[B]) takeDueLocked() (batch B, ok bool) {
	if !c.due || c.merging {
		return batch, false
	}
	batch, c.batch = c.batch, batch
	c.size, c.due = 0, false
	c.room.Signal()
	return batch, true
}

// beginMergeLocked keeps the batch from being flushed, and unlocks.
func (c *collector[B]) beginMergeLocked() {
	c.merging = true
	c.work++
	c.mu.Unlock()
}

func (c *collector[B]) endMergeLocked() {
	c.merging = false
	c.merged.Broadcast()
	if c.due {
		c.flushLocked()
	}
	c.doneLocked()
}

// flushNow is Flush.
func (c *collector[B]) flushNow() {
	c.mu.Lock()
	for c.merging {
		c.merged.Wait()
	}
	c.handOrWaitLocked()
	c.workLocked(c.due)
}

// stop is Stop.
func (c *collector[B]) stop(ctx context.Context) error {
	c.mu.Lock()
	c.stopped = true
	c.room.Broadcast()
	c.flushLocked()
	return c.waitLocked(ctx)
}
