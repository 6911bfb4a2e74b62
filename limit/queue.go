package limit

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// Queue is the leaky bucket as a queue: the units that it accepts start one after the
// other, T = Per/Count apart, rounded up to a nanosecond, and never closer, not even after
// a pause. A request of n units takes n such slots and starts at the first. It is accepted
// if, with its own, at most capacity slots lie ahead, and refused at once otherwise. So
// every accepted request starts in less than capacity × T.
//
// Wait sleeps until its slot. ReserveAt is for callers that sleep themselves, and returns
// how long. A reserved slot stays where it is, while waiters move up when a slot ahead of
// them becomes free. TakeAt is ReserveAt without the delay, so OK means that a slot was
// taken, not that it has come.
//
// A decision takes time linear in the number of open holds and of the gaps that cancelled
// holds left, and constant time without them. A Wait that gives up takes time linear in the
// number of waiters behind it. Make it with NewQueue: the zero Queue must not be used. It
// is safe for concurrent use.
type Queue struct {
	interval int64 // T in nanoseconds
	capacity int   // slots

	mu      sync.Mutex
	line    timeline
	seen    int64   // when slots were last taken: later ones start no earlier
	slots   []slots // the fixed ones that are not over at seen, by their start
	holds   uint64  // the number of the latest hold
	waiting line
	kick    chan struct{}

	watchers
}

// slots is adjoining slots.
type slots struct {
	start, end int64
	hold       uint64 // the number of their hold, 0 if they are taken
}

// NewQueue returns an empty Queue. It returns an error that matches ErrInvalid for a rate
// that is not positive or above one unit in a nanosecond, for a capacity below 1, and for a
// capacity that takes longer than 36 years at this rate.
func NewQueue(rate Rate, capacity int) (*Queue, error) {
	b, err := newIntervals("new queue", "capacity", rate, capacity)
	if err != nil {
		return nil, err
	}
	return &Queue{
		interval: b.num,
		capacity: capacity,
		seen:     lapsed.ns,
		slots:    make([]slots, 0, 2),
		kick:     make(chan struct{}, 1),
	}, nil
}

// Take is TakeAt at time.Now.
func (q *Queue) Take(n int) Decision { return q.TakeAt(time.Now(), n) }

// TakeAt takes the next n slots if the queue has room for them. RetryAfter of a refusal is
// the time until it will have room.
func (q *Queue) TakeAt(now time.Time, n int) Decision {
	_, d := q.ReserveAt(now, n)
	return d
}

func (q *Queue) peekAt(now time.Time, n int) Decision {
	_, _, d := q.request(now, n, peek)
	return d
}

// ReserveAt takes the next n slots if the queue has room for them, and returns how long
// after now they start. With n = 0 it takes none, and returns the delay of the next slot.
func (q *Queue) ReserveAt(now time.Time, n int) (delay time.Duration, d Decision) {
	delay, _, d = q.request(now, n, charge)
	return delay, d
}

// Allow reports whether one unit may start now, and takes the slot only if so. It never
// takes a slot of the future.
func (q *Queue) Allow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	instant, _ := q.line.at(now)
	start, _ := q.decideLocked(instant, 1)
	if start > instant { // there is always room for a slot that starts now
		return false
	}
	q.putLocked(now, instant, slots{start: start, end: start + q.interval})
	return true
}

// HoldAt sets the next n slots aside if the queue has room for them. ReserveAt with n = 0,
// just before, returns when they start. Cancel lets the waiters behind them move up; later
// requests take the slots that are left. Once another request was taken after the slots
// were over, Commit and Cancel do the same: time that passed cannot be given back.
func (q *Queue) HoldAt(now time.Time, n int) (Hold, Decision) {
	_, id, d := q.request(now, n, hold)
	return heldBy(q, id), d
}

// request decides on the next n slots, and returns how long after now they start, and the number of
// the hold, 0 if there is none.
func (q *Queue) request(now time.Time, n int, is purpose) (delay time.Duration, id uint64, d Decision) {
	q.mu.Lock()
	defer q.mu.Unlock()
	instant, early := q.line.at(now)
	start, d := q.decideLocked(instant, n)
	if d.OK {
		delay = postponed(time.Duration(start-instant), early)
	}
	if is != peek && d.OK && n > 0 {
		if is == hold {
			q.holds++
			id = q.holds
		}
		instant = q.putLocked(now, instant, slots{start, start + q.length(n), id})
	}
	q.describeLocked(instant, &d)
	return delay, id, d.asOf(early)
}

func (q *Queue) end(id uint64, commit bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.slots, func(s slots) bool { return s.hold == id })
	if i < 0 {
		return
	}
	s := q.slots[i]
	q.slots = slices.Delete(q.slots, i, i+1)
	if commit {
		s.hold = 0
		q.insertLocked(s)
	} else if len(q.waiting) > 0 { // waiters go by the clock
		instant, _ := q.line.at(time.Now())
		q.moveUpLocked(instant, 0)
	}
	q.changed()
}

// length returns how long n slots are. n is at most the capacity.
func (q *Queue) length(n int) int64 { return int64(n) * q.interval }

// decideLocked returns when n units that are accepted at now start, and the part of the
// decision that does not depend on whether they are charged.
func (q *Queue) decideLocked(now int64, n int) (start int64, d Decision) {
	if n < 0 || n > q.capacity {
		return 0, Decision{Never: true}
	}
	start, _ = q.fitLocked(q.behindLocked(now), q.length(max(n, 1)), 0)
	// There is room if the whole slots between now and the start leave n of the capacity.
	limit := q.length(q.capacity-n) + q.interval
	if wait := start - now; n > 0 && wait >= limit {
		d.RetryAfter = time.Duration(wait - limit + 1)
	} else {
		d.OK = true
	}
	return start, d
}

// behindLocked returns the first instant that is neither before now nor needed by waiters.
// Overdue waiters, whose goroutine is late, start now at the earliest.
func (q *Queue) behindLocked(now int64) int64 {
	at := max(now, q.seen)
	if len(q.waiting) == 0 {
		return at
	}
	if q.waiting[0].start < now {
		for _, w := range q.waiting {
			at = max(at, w.start) + w.length
		}
		return at
	}
	return max(at, q.waiting[len(q.waiting)-1].end())
}

// fitLocked returns the first instant, at or after at, that begins a free length between
// the fixed slots, and the index of the next fixed slots. It looks only at those from index
// i on.
func (q *Queue) fitLocked(at, length int64, i int) (start int64, next int) {
	for ; i < len(q.slots); i++ {
		s := q.slots[i]
		if s.end <= at {
			continue
		}
		if s.start-at >= length {
			break
		}
		at = s.end
	}
	return at, i
}

// putLocked takes slots at now, which lies at instant, and forgets the slots that are over.
// If the line ends there, it begins anew, and the slots move to the new one; with waiters,
// whose starts lie on the old line, it goes on. putLocked returns where now lies then.
func (q *Queue) putLocked(now time.Time, instant int64, s slots) int64 {
	q.seen = max(q.seen, instant)
	q.slots = slices.DeleteFunc(q.slots, func(s slots) bool { return s.end <= q.seen })
	q.insertLocked(s)
	if len(q.waiting) > 0 {
		return instant
	}
	if shift := q.line.reach(now, instant); shift > 0 {
		instant -= shift
		q.seen -= shift
		for i := range q.slots {
			q.slots[i].start -= shift
			q.slots[i].end -= shift
		}
	}
	return instant
}

// insertLocked puts slots into their place, and joins taken slots that touch.
func (q *Queue) insertLocked(s slots) {
	i := sort.Search(len(q.slots), func(i int) bool { return q.slots[i].start >= s.start })
	if s.hold == 0 {
		for i < len(q.slots) && q.slots[i].hold == 0 && q.slots[i].start <= s.end {
			s.end = max(s.end, q.slots[i].end)
			q.slots = slices.Delete(q.slots, i, i+1)
		}
		if i > 0 && q.slots[i-1].hold == 0 && s.start <= q.slots[i-1].end {
			q.slots[i-1].end = max(q.slots[i-1].end, s.end)
			return
		}
	}
	q.slots = slices.Insert(q.slots, i, s)
}

// describeLocked sets Remaining and ResetAfter of d as of now.
func (q *Queue) describeLocked(now int64, d *Decision) {
	at := q.behindLocked(now)
	idle := now // the end of all slots but those on hold
	if len(q.waiting) > 0 {
		idle = at
	}
	room := int64(0)
	for _, s := range q.slots {
		if s.hold == 0 {
			idle = max(idle, s.end)
		}
		if s.end <= at {
			continue
		}
		if gap := s.start - at; gap > 0 {
			room = max(room, min(gap/q.interval, int64(q.capacity)-(at-now)/q.interval))
		}
		at = s.end
	}
	d.Remaining = int(max(room, int64(q.capacity)-(at-now)/q.interval))
	d.ResetAfter = time.Duration(idle - now)
}
