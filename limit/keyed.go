package limit

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Keyed is a limiter for every key, such as a user or an address. Keyed makes the limiter of a key
// at its first charge, and forgets it when nothing is lost by that. Make it with NewKeyed: the
// zero Keyed panics. It starts no goroutine, and is safe for concurrent use.
//
// A Keyed never has more than most limiters, and never forgets one that has not recovered: one
// whose ResetAfter is not over, that has a Hold, or that a request waits for. If none has
// recovered, a full Keyed refuses a new key, and RetryAfter is the time until one will have. So no
// key regains its limit by filling the Keyed with other keys. But a caller that can fill it keeps
// new keys out for as long as a limiter takes to recover: choose most above the number of keys
// that are in use in that time.
//
// It gives up three things. A forgotten limiter is made again when its key comes back. A use is
// noted with its key alone, so a full Keyed does not know all keys in the order of their last use:
// it looks at 16 that were not used for long, and forgets the limiter of those that has recovered
// and was used longest ago, or, if none of them has recovered, the one of all that recovered
// first. And the memory of idle keys is given back by later requests, two keys at each, between
// once and twice idle after their last use.
//
// Requests for a key that has a limiter lock that key, and at most one in 64 of the others, for
// the time of the decision, and meet in nothing else; all others lock the Keyed for a moment.
//
// Keyed is for one process and one limit a key, of any algorithm. Package keyed is for several
// limits a key, and for processes that count together.
type Keyed[K comparable] struct {
	most   int
	idle   time.Duration
	make   func(key K) (Limiter, error)
	start  time.Time
	seed   maphash.Seed
	shards []keyedShard[K]           // a power of two of them
	look   atomic.Pointer[time.Time] // when the first of turns has to be looked at
	_      [64]byte                  // what each request reads stays in the caches

	mu    sync.Mutex    // to add and to forget; not held while a limiter, or make, is called
	free  recoveries[K] // all entries
	turns entry[K]      // the ring of them, in the order in which they got their turn
	floor *time.Time    // when the last of the forgotten limiters had recovered
}

// NewKeyed returns a Keyed that holds up to most limiters, and forgets limiters that have
// recovered and were not used for idle. make returns the limiter of a key, for this Keyed alone.
// It may be called concurrently, also twice for a key, of which the Keyed keeps one limiter. If
// make returns an error or a nil Limiter, the request fails with an error; a panic passes through;
// in either case nothing of the key is kept. NewKeyed returns an error that matches ErrInvalid for
// most or idle below 1, and if make is nil.
func NewKeyed[K comparable](most int, idle time.Duration, make func(key K) (Limiter, error)) (*Keyed[K], error) {
	switch {
	case most <= 0:
		return nil, fmt.Errorf("new keyed: %w: most is %d, want 1 or more", ErrInvalid, most)
	case idle <= 0:
		return nil, fmt.Errorf("new keyed: %w: idle is %v, want more than 0", ErrInvalid, idle)
	case make == nil:
		return nil, fmt.Errorf("new keyed: %w: make is nil", ErrInvalid)
	}
	shards := 64
	for shards < 4096 && shards <= most/512 { // no request waits for the entries of a large shard to move
		shards *= 2
	}
	k := &Keyed[K]{most: most, idle: idle, make: make, start: time.Now(), seed: maphash.MakeSeed(), floor: &startOfTime}
	for range shards {
		k.shards = append(k.shards, keyedShard[K]{chains: []*entry[K]{nil}})
	}
	k.turns.next, k.turns.before = &k.turns, &k.turns
	k.look.Store(&endOfTime) // a request may find the first entry before that has set it
	return k, nil
}

// Len returns the number of keys that have a limiter.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.free)
}

// TakeAt charges n units to the limiter of key at now if all of them may pass. It returns the
// error of making the limiter, and one that matches ErrInvalid for a key that is not equal to
// itself, such as NaN; the request is refused then. With n = 0 no key is added: the Decision is
// that of a new limiter, with 0 Remaining if the Keyed is full. For keys that are added after a
// limiter was forgotten, an instant before the recovery of that limiter counts as its recovery.
func (k *Keyed[K]) TakeAt(key K, now time.Time, n int) (Decision, error) {
	var d Decision
	if k.takeKnown(&d, key, now, n, false) {
		return d, nil
	}
	_, d, err := k.ask(key, now, n, false)
	return d, err
}

// HoldAt sets n units aside with the limiter of key if all of them may pass. Its errors are those
// of TakeAt, and one that matches ErrInvalid if the limiter is not a Holder.
func (k *Keyed[K]) HoldAt(key K, now time.Time, n int) (Hold, Decision, error) {
	return k.ask(key, now, n, true)
}

// ask is TakeAt or HoldAt under no lock.
func (k *Keyed[K]) ask(key K, now time.Time, n int, holds bool) (h Hold, _ Decision, _ error) {
	e, d, err := k.enter(key, now, n)
	if e == nil {
		return h, d, err
	}
	at := latest(now, *e.floor)
	defer func() {
		if h == (Hold{}) {
			k.leave(e, at, d.OK && n > 0, d.ResetAfter)
		}
	}()
	if !holds {
		d = e.limiter.TakeAt(at, n)
	} else if holder, ok := e.limiter.(Holder); !ok {
		return h, d, fmt.Errorf("hold for a key: %w: limiter is a %T, want a Holder", ErrInvalid, e.limiter)
	} else if h, d = holder.HoldAt(at, n); h != (Hold{}) {
		h = Hold{owner: &keyedHold[K]{keyed: k, entry: e, hold: h, at: at}}
	}
	if e.full {
		d.Remaining = 0
	}
	return h, d.asOf(at.Sub(now)), nil
}

// takeKnown is TakeAt under the lock of the key, if that has a limiter which calls no code of
// others. With monotonic, it also has to be one that is indifferent to the wall clock.
func (k *Keyed[K]) takeKnown(d *Decision, key K, now time.Time, n int, monotonic bool) bool {
	s, hash := k.shard(key)
	s.Lock()
	e := s.find(hash, key)
	if e == nil || !e.plain || now.Before(*e.floor) || monotonic && e.bucket == nil {
		s.Unlock()
		return false
	}
	*d = e.limiter.TakeAt(now, n)
	e.last = latest(e.last, now)
	e.noteLocked(now, d.OK && n > 0, d.ResetAfter)
	s.Unlock()
	k.tidy(now)
	return true
}

// Take is TakeAt at time.Now.
func (k *Keyed[K]) Take(key K, n int) (Decision, error) {
	var d Decision
	if k.takeKnown(&d, key, k.now(), n, true) {
		return d, nil
	}
	return k.TakeAt(key, time.Now(), n)
}

// now reads the monotonic clock alone, in two thirds of the time of time.Now.
func (k *Keyed[K]) now() time.Time { return k.start.Add(time.Since(k.start)) }

// Allow reports whether one unit may pass for key now, and charges it if so. It returns false if
// the limiter cannot be made.
func (k *Keyed[K]) Allow(key K) bool {
	now := k.now()
	s, hash := k.shard(key)
	s.Lock()
	if e := s.find(hash, key); e != nil && e.bucket != nil && !now.Before(*e.floor) {
		ok, reset := e.bucket.allowAt(now)
		e.last = latest(e.last, now)
		e.noteLocked(now, ok, reset)
		s.Unlock()
		k.tidy(now)
		return ok
	}
	s.Unlock()
	d, _ := k.TakeAt(key, time.Now(), 1)
	return d.OK
}

// keyedHold is a hold of the limiter of a key, whose entry stays until the hold ends.
type keyedHold[K comparable] struct {
	keyed *Keyed[K]
	entry *entry[K]
	hold  Hold
	at    time.Time
	ended atomic.Bool
}

func (h *keyedHold[K]) end(_ uint64, commit bool) {
	if !h.ended.Swap(true) {
		h.hold.finish(commit)
		// The charge counts as of h.at: its recovery, seen from there, is the same at any time.
		h.keyed.leave(h.entry, h.at, commit, h.entry.limiter.TakeAt(h.at, 0).ResetAfter)
	}
}

// Wait is WaitN for one unit.
func (k *Keyed[K]) Wait(ctx context.Context, key K) error { return k.WaitN(ctx, key, 1) }

// WaitN waits until n units may pass for key, and charges them, as WaitN of the limiter does.
// Requests that wait for a new key while the Keyed is full try again when a limiter will have
// recovered, every 100 ms if that is not known, and in no order. Its errors are those of TakeAt
// and of the limiters.
func (k *Keyed[K]) WaitN(ctx context.Context, key K, n int) error {
	err := ctx.Err()
	for err == nil {
		e, d, failed := k.enter(key, time.Now(), n)
		if e != nil {
			var at time.Time
			defer func() { k.leave(e, at, err == nil && n > 0, d.ResetAfter) }()
			if own, ok := e.limiter.(waiting); ok {
				err = own.WaitN(ctx, n)
			} else {
				err = e.set.WaitN(ctx, n)
			}
			at = latest(time.Now(), *e.floor)
			d = e.limiter.TakeAt(at, 0)
			return err
		}
		if failed != nil {
			return failed
		}
		if err = refusal(ctx, d, n); err == nil {
			err = pause(ctx, cmp.Or(d.RetryAfter, recheck), nil)
		}
	}
	return err
}

// enter returns the entry of key, which stays until leave is called for it. If it returns nil, the
// Decision and the error are the answer to the request.
func (k *Keyed[K]) enter(key K, now time.Time, n int) (*entry[K], Decision, error) {
	if key != key {
		return nil, Decision{}, fmt.Errorf("take for a key: %w: key is %v, which is not equal to itself", ErrInvalid, key)
	}
	if e := k.use(key, now); e != nil {
		k.tidy(now)
		return e, Decision{}, nil
	}
	e, d := k.find(key, now, n, nil)
	if e != nil || !d.OK {
		return e, d, nil
	}
	l, err := k.make(key)
	if err == nil && l == nil {
		err = errors.New("no limiter")
	}
	if err != nil {
		return nil, Decision{}, fmt.Errorf("make limiter for a key: %w", err)
	}
	e, d = k.find(key, now, n, l)
	return e, d, nil
}

// use returns the entry of key, if there is one, with another user.
func (k *Keyed[K]) use(key K, now time.Time) *entry[K] {
	s, hash := k.shard(key)
	s.Lock()
	defer s.Unlock()
	e := s.find(hash, key)
	if e != nil {
		e.users++
		e.last = latest(e.last, now)
	}
	return e
}

// find is use that makes an entry of the limiter l if there is none, and adds it if n is not 0. If
// it returns nil, the Decision is OK if l is missing, and else that of a full Keyed.
func (k *Keyed[K]) find(key K, now time.Time, n int, l Limiter) (*entry[K], Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.use(key, now); e != nil {
		k.expireLocked(now)
		return e, Decision{}
	}
	wait, ok := k.roomLocked(now)
	switch {
	case !ok && n < 0:
		return nil, Decision{Never: true}
	case !ok && n > 0:
		return nil, Decision{RetryAfter: wait}
	case l == nil:
		return nil, Decision{OK: true}
	}
	e := newEntry(key, l, now)
	e.shard, e.hash = k.shard(key)
	e.floor, e.full = k.floor, !ok
	if n != 0 {
		heap.Push(&k.free, e)
		k.turnLocked(e, now)
		e.shard.add(e)
		k.expireLocked(now)
	}
	return e, Decision{}
}

// leave ends the use of an entry that enter returned. Its limiter, which was charged or not, said
// at an instant that it recovers within reset.
func (k *Keyed[K]) leave(e *entry[K], at time.Time, charged bool, reset time.Duration) {
	e.shard.Lock()
	e.noteLocked(at, charged, reset)
	e.users--
	charged, settle := e.charged, e.users == 0 && (e.parked || !e.charged)
	e.shard.Unlock()
	if settle {
		k.mu.Lock()
		defer k.mu.Unlock()
		if (charged || !k.forgetLocked(e, startOfTime, math.MinInt64)) && e.place >= 0 && e.placeLocked() {
			heap.Fix(&k.free, e.place)
		}
	}
}
