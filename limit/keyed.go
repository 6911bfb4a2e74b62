package limit

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Keyed is a limiter for every key, such as a user or an address. Keyed makes the limiter
// of a key at its first charge, and forgets it when nothing is lost by that. Make it with
// NewKeyed: the zero Keyed panics. It starts no goroutine, and is safe for concurrent use.
//
// A Keyed never has more than most limiters, and never forgets one that has not recovered:
// one whose ResetAfter is not over, that has a Hold, or that a request waits for. If none
// has recovered, a full Keyed refuses a new key, and RetryAfter is the time until one will
// have. So no key regains its limit by filling the Keyed with other keys. But a caller that
// can fill it keeps new keys out for as long as a limiter takes to recover: choose most
// above the number of keys that are in use in that time.
//
// It gives up three things. A forgotten limiter is made again when its key comes back. A
// use is noted with its key alone, so a full Keyed does not know all keys in the order of
// their last use: it looks at 16 that were not used for long, and forgets the limiter of
// those that has recovered and was used longest ago, or, if none of them has recovered, the
// one of all that recovered first. And the memory of idle keys is given back by later
// requests, two keys at each, between once and twice idle after their last use.
//
// Requests for a key that has a limiter lock that key for the time of the decision, and
// meet in nothing else; all others lock the Keyed for a moment.
//
// Keyed is for one process and one limit a key, of any algorithm. Package keyed is for
// several limits a key, and for processes that count together.
type Keyed[K comparable] struct {
	most int
	idle time.Duration
	make func(key K) (Limiter, error)

	entries table[K]
	line    keyedLine    // begins, before the first entry is added, at its instant
	look    atomic.Int64 // when the oldest entry has to be looked at, on that line

	mu     sync.Mutex // to add and to forget; not held while a limiter, or make, is called
	recent recency[K]
	free   recoveries[K] // the entries without users, and some that have users again
	floor  time.Time     // when the last of the forgotten limiters had recovered
}

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
	return &Keyed[K]{most: most, idle: idle, make: make, entries: newTable[K](most), floor: startOfTime}, nil
}

// Len returns the number of keys that have a limiter.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.entries.size
}

// TakeAt charges n units to the limiter of key at now if all of them may pass. It returns
// the error of making the limiter, and one that matches ErrInvalid for a key that is not
// equal to itself, such as NaN; the request is refused then. With n = 0 no key is added:
// the Decision is that of a new limiter, with 0 Remaining if the Keyed is full. For keys
// that are added after a limiter was forgotten, an instant before the recovery of that
// limiter counts as its recovery.
func (k *Keyed[K]) TakeAt(key K, now time.Time, n int) (Decision, error) {
	var d Decision
	if e := k.entries.find(k.entries.hash(key), key); e != nil && e.plain {
		at := k.line.at(now)
		if e.take(&d, &k.line, instant{now, at}, n) {
			if at.ns >= k.look.Load() {
				k.expire(now)
			}
			return d, nil
		}
	}
	return k.takeInside(key, now, n)
}

// takeInside is TakeAt that calls the limiter while the entry has a user, and no lock.
func (k *Keyed[K]) takeInside(key K, now time.Time, n int) (Decision, error) {
	e, d, err := k.enter(key, now, n)
	if e == nil {
		return d, err
	}
	instant, early := e.instant(now)
	defer func() { k.leave(e, instant, d.OK && n > 0, d.ResetAfter) }()
	d = e.limiter.TakeAt(instant, n)
	return d.asOf(early), nil
}

// Take is TakeAt at time.Now.
func (k *Keyed[K]) Take(key K, n int) (Decision, error) {
	var d Decision
	if e := k.entries.find(k.entries.hash(key), key); e != nil && bucketOf(e.limiter) != nil {
		if now, ok := k.line.now(); ok && e.take(&d, &k.line, now, n) {
			k.tidy(now.ns)
			return d, nil
		}
	}
	return k.TakeAt(key, time.Now(), n)
}

// Allow reports whether one unit may pass for key now, and charges it if so. It returns
// false if the limiter cannot be made.
func (k *Keyed[K]) Allow(key K) bool {
	if e := k.entries.find(k.entries.hash(key), key); e != nil {
		if b := bucketOf(e.limiter); b != nil {
			if now, near := k.line.now(); near {
				if ok, done := e.allow(b, &k.line, now); done {
					k.tidy(now.ns)
					return ok
				}
			}
		}
	}
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
	instant, early := e.instant(now)
	var h Hold
	defer func() {
		if h == (Hold{}) {
			k.leave(e, instant, d.OK && n > 0, d.ResetAfter)
		}
	}()
	holder, ok := e.limiter.(Holder)
	if !ok {
		return Hold{}, Decision{}, fmt.Errorf("hold for a key: %w: limiter is a %T, want a Holder", ErrInvalid, e.limiter)
	}
	h, d = holder.HoldAt(instant, n)
	if h == (Hold{}) {
		return h, d.asOf(early), nil
	}
	return Hold{owner: &keyedHold[K]{keyed: k, entry: e, hold: h, at: instant}}, d.asOf(early), nil
}

// enter returns the entry of key, which stays until leave is called for it. If it returns
// nil, the Decision and the error are the answer to the request.
func (k *Keyed[K]) enter(key K, now time.Time, n int) (*entry[K], Decision, error) {
	if !equal(key, key) {
		return nil, Decision{}, fmt.Errorf("take for a key: %w: key is %v, which is not equal to itself", ErrInvalid, key)
	}
	hash := k.entries.hash(key)
	if e := k.entries.find(hash, key); e != nil {
		at := k.line.at(now)
		if e.enter(at.ns) {
			if at.ns >= k.look.Load() {
				k.expire(now)
			}
			return e, Decision{}, nil
		}
	}
	e, d := k.find(hash, key, now, nil)
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
	e, d = k.find(hash, key, now, l)
	return e, d, nil
}

func equal[K comparable](a, b K) bool { return a == b }

// find enters the entry of key, and adds one with the limiter l if there is none and l is
// not nil. If it returns nil, the Decision is OK if there is room for another entry.
func (k *Keyed[K]) find(hash uint64, key K, now time.Time, l Limiter) (*entry[K], Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries.find(hash, key)
	if e == nil {
		if wait, ok := k.roomLocked(now); !ok {
			return nil, Decision{RetryAfter: wait}
		}
		if l == nil {
			return nil, Decision{OK: true}
		}
		e = &entry[K]{key: key, hash: hash, limiter: l, plain: isPlain(l), floor: k.floor,
			recovered: longAgo, parked: true, place: -1}
		k.addLocked(e, now)
	}
	at := instant{now, k.line.at(now)}
	e.enter(at.ns)
	k.expireLocked(at)
	return e, Decision{}
}

func (k *Keyed[K]) addLocked(e *entry[K], now time.Time) {
	k.line.begin(now)
	at := k.line.at(now).ns
	e.last = at
	if k.recent.oldest == nil {
		k.look.Store(k.lookAt(at))
	}
	k.recent.pushLocked(e, at)
	k.entries.addLocked(e)
}

// leave ends the use of an entry that enter returned. Its limiter, which was charged or not,
// said at instant that it recovers within reset.
func (k *Keyed[K]) leave(e *entry[K], instant time.Time, charged bool, reset time.Duration) {
	if e.leave(&k.line, instant, charged, reset) {
		k.settle(e)
	}
}

// settle drops an entry without users if nothing was charged, and otherwise lets it be
// forgotten when it has recovered.
func (k *Keyed[K]) settle(e *entry[K]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.users > 0 || e.gone:
	case !e.charged:
		k.dropLocked(e)
	case e.parked:
		e.parked = false
		heap.Push(&k.free, e)
	}
}

// lookAt returns when an entry that got its turn at an instant has to be looked at.
func (k *Keyed[K]) lookAt(turn int64) int64 {
	if turn > math.MaxInt64-int64(k.idle) {
		return math.MaxInt64
	}
	return turn + int64(k.idle)
}

// tidy is expire at time.Now, if that is after look.
func (k *Keyed[K]) tidy(at int64) {
	if at >= k.look.Load() {
		k.expire(time.Now())
	}
}

// expire is expireLocked, unless another request is at work on the entries.
func (k *Keyed[K]) expire(now time.Time) {
	if k.mu.TryLock() {
		defer k.mu.Unlock()
		k.expireLocked(instant{now, k.line.at(now)})
	}
}

// expireLocked looks at up to two entries that had their turn an idle ago, and forgets
// those that were not used for idle and have recovered. The others get a new turn.
func (k *Keyed[K]) expireLocked(now instant) {
	for range 2 {
		e := k.recent.oldest
		if e == nil || now.ns < k.lookAt(e.turn) {
			break
		}
		e.mu.Lock()
		isIdle := now.ns >= k.lookAt(e.last)
		e.mu.Unlock()
		if !isIdle || !k.forgetLocked(e, now) {
			k.recent.renewLocked(e, now.ns)
		}
	}
	if e := k.recent.oldest; e != nil {
		k.look.Store(k.lookAt(e.turn))
	}
}
