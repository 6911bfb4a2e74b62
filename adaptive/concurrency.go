package adaptive

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Concurrency is a limit of calls in flight that is found by overloading the provider. Each
// call holds a Slot from before it is sent until it has ended, and says then whether the
// provider was overloaded: 503, 529, or no answer in time.
//
// How long a call takes plays no part, unlike in limiters that watch latency. A call takes as
// long as its answer, so a slow one says nothing about load.
//
// Make it with NewConcurrency: the zero Concurrency panics. It is safe for concurrent use.
type Concurrency struct {
	mu      sync.Mutex
	time    timeline
	search  SlotSearch
	slots   []place
	free    []int // the indices of the slots that are not held
	waiting list.List
	timer   *time.Timer // serves the waiters when the gate opens
	gate    int64       // nothing passes before
}

// place is where a slot is kept. Its number tells one use of it from the others.
type place struct {
	number uint64
	since  int64
	held   bool
}

// Slot is the permission for one call. The first call of Release or Overloaded gives it back,
// later ones do nothing. Copies of a Slot are the same Slot, and the zero Slot is none. Its
// methods are safe for concurrent use.
type Slot struct {
	of     *Concurrency
	index  int
	number uint64
}

// slotWaiter is a caller that waits for a slot.
type slotWaiter struct {
	served chan struct{} // closed when it has the slot
	slot   Slot
}

// NewConcurrency returns a Concurrency at its start. It returns an error that matches
// limit.ErrInvalid and names the field that is out of range.
func NewConcurrency(config ConcurrencyConfig) (*Concurrency, error) {
	search, err := newSlotSearch(config)
	if err != nil {
		return nil, fmt.Errorf("new adaptive concurrency: %w", err)
	}
	return &Concurrency{search: search, gate: -far}, nil
}

// TryAcquire is TryAcquireAt time.Now.
func (c *Concurrency) TryAcquire() (slot Slot, ok bool) { return c.TryAcquireAt(time.Now()) }

// TryAcquireAt takes a slot at now if one is free, nobody waits for it, and the provider has
// not asked to wait.
func (c *Concurrency) TryAcquireAt(now time.Time) (slot Slot, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.beginLocked(now)
	if c.waiting.Len() > 0 || !c.passesLocked(at) {
		return Slot{}, false
	}
	return c.takeLocked(at), true
}

// Acquire waits until a slot is free, and takes it. Waiters are served in the order in which
// they came. It returns at once an error that matches limit.ErrDeadline if the provider asked
// to wait longer than until the deadline of the context. If the context ends first, it returns
// ctx.Err(). With an error no slot is held.
func (c *Concurrency) Acquire(ctx context.Context) (Slot, error) {
	if err := ctx.Err(); err != nil {
		return Slot{}, err
	}
	c.mu.Lock()
	now := time.Now()
	at := c.beginLocked(now)
	if c.waiting.Len() == 0 && c.passesLocked(at) {
		defer c.mu.Unlock()
		return c.takeLocked(at), nil
	}
	if deadline, ok := ctx.Deadline(); ok && c.gate-at > int64(deadline.Sub(now)) {
		defer c.mu.Unlock()
		return Slot{}, fmt.Errorf("acquire a slot: %w", limit.ErrDeadline)
	}
	w := &slotWaiter{served: make(chan struct{})}
	element := c.waiting.PushBack(w)
	c.armLocked(at)
	c.mu.Unlock()
	select {
	case <-w.served:
		return w.slot, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at = c.beginLocked(time.Now())
	select {
	case <-w.served: // together with the end of the context
		c.putLocked(w.slot)
		c.serveLocked(at)
	default:
		c.waiting.Remove(element)
		if c.waiting.Len() == 0 && c.timer != nil {
			c.timer.Stop()
		}
	}
	return Slot{}, ctx.Err()
}

// Limit returns how many calls may be in flight now.
func (c *Concurrency) Limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.search.Limit()
}

// InFlight returns how many slots are held. After a decrease they may be more than the limit:
// no call is ended for that.
func (c *Concurrency) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openLocked()
}

// Waiting returns how many callers wait in Acquire.
func (c *Concurrency) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting.Len()
}

func (c *Concurrency) openLocked() int { return len(c.slots) - len(c.free) }

func (c *Concurrency) passesLocked(at int64) bool {
	if c.openLocked() >= c.search.Limit() {
		c.search.Full()
		return false
	}
	return at >= c.gate
}

// takeLocked takes a slot that is free.
func (c *Concurrency) takeLocked(at int64) Slot {
	var i int
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		i = len(c.slots)
		c.slots = append(c.slots, place{})
	}
	p := &c.slots[i]
	p.number++
	p.since, p.held = at, true
	if c.openLocked() >= c.search.Limit() {
		c.search.Full()
	}
	return Slot{c, i, p.number}
}

// putLocked gives a slot back, if it is held. It returns since when it was.
func (c *Concurrency) putLocked(s Slot) (since int64, ok bool) {
	p := &c.slots[s.index]
	if !p.held || p.number != s.number {
		return 0, false
	}
	p.held = false
	c.free = append(c.free, s.index)
	return p.since, true
}

// serveLocked gives free slots to those that wait.
func (c *Concurrency) serveLocked(at int64) {
	for first := c.waiting.Front(); first != nil && c.passesLocked(at); first = c.waiting.Front() {
		w := c.waiting.Remove(first).(*slotWaiter)
		w.slot = c.takeLocked(at)
		close(w.served)
	}
	c.armLocked(at)
}

// armLocked makes the timer serve the waiters when the gate opens.
func (c *Concurrency) armLocked(at int64) {
	if c.waiting.Len() == 0 || c.gate <= at {
		return
	}
	wait := time.Duration(c.gate - at)
	if c.timer != nil {
		c.timer.Reset(wait)
		return
	}
	c.timer = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.serveLocked(c.beginLocked(time.Now()))
	})
}

// beginLocked returns where an instant lies on the line of time, which begins with the first
// one, and anew with one that is far away.
func (c *Concurrency) beginLocked(now time.Time) int64 {
	at := c.time.at(now)
	if c.time.begun && at < far {
		return at
	}
	c.time.move(now, at, &c.gate)
	c.search.shift(at)
	c.search.begin(0)
	for i := range c.slots {
		c.slots[i].since = max(c.slots[i].since-at, -far)
	}
	return 0
}
