package limit

import (
	"container/heap"
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Keyed is a limiter for every key, such as a user or an address. Keyed makes the limiter
// of a key at its first charge, and forgets it when nothing is lost by that. Make it with
// NewKeyed: the zero Keyed panics. It starts no goroutine, and is safe for concurrent use.
//
// A Keyed never has more than most limiters, and never forgets one that has not recovered:
// one whose ResetAfter is not over, that has a Hold, or that a request waits for. A full
// Keyed forgets the limiter that was used longest ago if that has recovered, and otherwise
// the one that recovered first. If none has recovered, it refuses a new key, and RetryAfter
// is the time until one will have. So no key regains its limit by filling the Keyed with
// other keys. But a caller that can fill it keeps new keys out for as long as a limiter
// takes to recover: choose most above the number of keys that are in use in that time.
//
// It gives up three things: a forgotten limiter is made again when its key comes back; a
// request locks the Keyed twice, for a moment; and the memory of idle keys is given back by
// later requests, a few keys at each.
type Keyed[K comparable] struct {
	most int
	idle time.Duration
	make func(key K) (Limiter, error)

	mu      sync.Mutex // not held while a limiter, or make, is called
	entries map[K]*entry[K]
	used    list.List     // of *entry[K], the one used last in front
	free    recoveries[K] // the entries without users, and some that have users again
	floor   time.Time     // when the last of the forgotten limiters had recovered
}

// startOfTime and endOfTime are the first and the last instant of a time.Time.
var (
	startOfTime = time.Unix(-1<<63, 0)
	endOfTime   = time.Unix(1<<63-62135596801, 999999999)
)

// NewKeyed returns a Keyed that holds up to most limiters, and forgets limiters that have
// recovered and were not used for idle. make returns the limiter of a key, for this Keyed
// alone. It may be called concurrently, also twice for a key, of which the Keyed keeps one
// limiter. If make returns an error or a nil Limiter, the request fails with an error; a
// panic passes through; in either case nothing of the key is kept. NewKeyed returns an
// error that matches ErrInvalid for most or idle below 1, and if make is nil.
func NewKeyed[K comparable](most int, idle time.Duration, make func(key K) (Limiter, error)) (*Keyed[K], error) {
	const operation = "new keyed"
	switch {
	case most <= 0:
		return nil, fmt.Errorf("%s: %w: most is %d, want 1 or more", operation, ErrInvalid, most)
	case idle <= 0:
		return nil, fmt.Errorf("%s: %w: idle is %v, want more than 0", operation, ErrInvalid, idle)
	case make == nil:
		return nil, fmt.Errorf("%s: %w: make is nil", operation, ErrInvalid)
	}
	return &Keyed[K]{most: most, idle: idle, make: make, entries: map[K]*entry[K]{}, floor: startOfTime}, nil
}

// Len returns the number of keys that have a limiter.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.entries)
}

// TakeAt charges n units to the limiter of key at now if all of them may pass. It returns
// the error of making the limiter, and one that matches ErrInvalid for a key that is not
// equal to itself, such as NaN; the request is refused then. With n = 0 no key is added:
// the Decision is that of a new limiter, with 0 Remaining if the Keyed is full. For keys
// that are added after a limiter was forgotten, an instant before the recovery of that
// limiter counts as its recovery.
func (k *Keyed[K]) TakeAt(key K, now time.Time, n int) (Decision, error) {
	e, d, err := k.enter(key, now, n)
	if e == nil {
		return d, err
	}
	instant := e.instant(now)
	defer func() { k.leave(e, instant, d, n) }()
	d = e.limiter.TakeAt(instant, n)
	return d.asOf(e.floor.Sub(now)), nil
}

// Take is TakeAt at time.Now.
func (k *Keyed[K]) Take(key K, n int) (Decision, error) { return k.TakeAt(key, time.Now(), n) }

// Allow reports whether one unit may pass for key now, and charges it if so. It returns
// false if the limiter cannot be made.
func (k *Keyed[K]) Allow(key K) bool {
	d, _ := k.TakeAt(key, time.Now(), 1)
	return d.OK
}

// HoldAt sets n units aside with the limiter of key if all of them may pass. Its errors are
// those of TakeAt, and one that matches ErrInvalid if the limiter is not a Holder.
func (k *Keyed[K]) HoldAt(key K, now time.Time, n int) (Hold, Decision, error) {
	e, d, err := k.enter(key, now, n)
	if e == nil {
		return Hold{}, d, err
	}
	instant := e.instant(now)
	var h Hold
	defer func() {
		if h == (Hold{}) {
			k.leave(e, instant, d, n)
		}
	}()
	holder, ok := e.limiter.(Holder)
	if !ok {
		return Hold{}, Decision{}, fmt.Errorf("hold for a key: %w: limiter is a %T, want a Holder", ErrInvalid, e.limiter)
	}
	h, d = holder.HoldAt(instant, n)
	if h == (Hold{}) {
		return h, d.asOf(e.floor.Sub(now)), nil
	}
	return Hold{owner: &keyedHold[K]{keyed: k, entry: e, hold: h, at: instant}}, d.asOf(e.floor.Sub(now)), nil
}

// enter returns the entry of key, which stays until leave is called for it. If it returns
// nil, the Decision and the error are the answer to the request.
func (k *Keyed[K]) enter(key K, now time.Time, n int) (*entry[K], Decision, error) {
	if !equal(key, key) {
		return nil, Decision{}, fmt.Errorf("take for a key: %w: key is %v, which is not equal to itself", ErrInvalid, key)
	}
	e, d := k.find(key, now, nil)
	if e != nil || !d.OK && n != 0 {
		if e == nil && n < 0 {
			d = Decision{Never: true}
		}
		return e, d, nil
	}
	full := !d.OK
	l, err := k.make(key)
	if err == nil && l == nil {
		err = errors.New("no limiter")
	}
	if err != nil {
		return nil, Decision{}, fmt.Errorf("make limiter for a key: %w", err)
	}
	if n == 0 {
		k.mu.Lock()
		e := entry[K]{limiter: l, floor: k.floor}
		k.mu.Unlock()
		d = e.TakeAt(now, 0)
		if full {
			d.Remaining = 0
		}
		return nil, d, nil
	}
	e, d = k.find(key, now, l)
	return e, d, nil
}

func equal[K comparable](a, b K) bool { return a == b }

// find enters the entry of key, and adds one with the limiter l if there is none and l is
// not nil. If it returns nil, the Decision is OK if there is room for another entry.
func (k *Keyed[K]) find(key K, now time.Time, l Limiter) (*entry[K], Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[key]
	if e == nil {
		if wait, ok := k.roomLocked(now); !ok {
			return nil, Decision{RetryAfter: wait}
		}
		if l == nil {
			return nil, Decision{OK: true}
		}
		e = &entry[K]{key: key, limiter: l, floor: k.floor, last: now, recovered: startOfTime, place: -1}
		e.use = k.used.PushFront(e)
		k.entries[key] = e
	}
	e.users++
	if e.last.Before(now) {
		e.last = now
	}
	k.used.MoveToFront(e.use)
	k.expireLocked(now)
	return e, Decision{}
}

// leave ends the use of an entry that enter returned. d is the decision of its limiter on n
// units at instant.
func (k *Keyed[K]) leave(e *entry[K], instant time.Time, d Decision, n int) {
	recovered := startOfTime // if it has recovered already, at an unknown instant
	if d.ResetAfter > 0 {
		recovered = instant.Add(d.ResetAfter)
		if recovered.Sub(instant) < d.ResetAfter { // no time.Time is that late
			recovered = endOfTime
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e.users--
	e.charged = e.charged || d.OK && n > 0 || d.ResetAfter > 0
	if e.recovered.Before(recovered) {
		e.recovered = recovered
	}
	switch {
	case e.users > 0:
	case !e.charged:
		k.dropLocked(e)
	case e.place < 0:
		heap.Push(&k.free, e)
	}
}

// expireLocked forgets up to two entries that were not used for idle. An entry that has not
// recovered is looked at again after another idle. The entry of the request stays, so there
// is always one.
func (k *Keyed[K]) expireLocked(now time.Time) {
	for range 2 {
		e := k.used.Back().Value.(*entry[K])
		if now.Sub(e.last) < k.idle {
			return
		}
		if e.isFree(now) {
			k.forgetLocked(e)
		} else {
			e.last = now
			k.used.MoveToFront(e.use)
		}
	}
}

// roomLocked makes room for one more entry, or returns how long it takes until there can be
// room: 0 if that is not known.
func (k *Keyed[K]) roomLocked(now time.Time) (wait time.Duration, ok bool) {
	if len(k.entries) < k.most {
		return 0, true
	}
	if oldest := k.used.Back().Value.(*entry[K]); oldest.isFree(now) {
		k.forgetLocked(oldest)
		return 0, true
	}
	for len(k.free) > 0 {
		e := k.free[0]
		switch {
		case e.users > 0: // comes back with leave
			heap.Pop(&k.free)
		case e.due.Before(e.recovered):
			e.due = e.recovered
			heap.Fix(&k.free, 0)
		case e.isFree(now):
			k.forgetLocked(e)
			return 0, true
		default:
			return e.recovered.Sub(now), false
		}
	}
	return 0, false
}

// forgetLocked drops an entry that has recovered.
func (k *Keyed[K]) forgetLocked(e *entry[K]) {
	if k.floor.Before(e.recovered) {
		k.floor = e.recovered
	}
	k.dropLocked(e)
}

func (k *Keyed[K]) dropLocked(e *entry[K]) {
	delete(k.entries, e.key)
	k.used.Remove(e.use)
	if e.place >= 0 {
		heap.Remove(&k.free, e.place)
	}
}
