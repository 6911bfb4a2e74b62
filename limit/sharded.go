package limit

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Sharded is a bucket in parts, for one limit from which many goroutines take concurrently.
// Every shard is a leaky bucket with an equal part of the rate, to a fraction of a
// nanosecond, and a part of the burst; the parts differ by at most one unit. Together they
// are exactly the rate and the burst: Sharded admits at most burst + rate × t units in any
// time t. Make it with NewSharded: the zero Sharded panics. It is a Holder, and safe for
// concurrent use.
//
// Allow begins at the shard that its processor used last and looks at the others only if
// that refuses, so goroutines rarely meet. That has a price:
//
//   - A request is charged to one shard. A request above a shard's part of the burst
//     never fits, and a request of several units may be refused while the units are
//     there, but in different shards; RetryAfter is exact even then. A single unit is
//     refused only if there is none.
//   - A refusal looks at every shard, and so does every Decision: Remaining is the sum
//     of the shards, ResetAfter their largest.
//   - Requests of a key (Shard) have only the part of one shard, which they share with
//     the other keys of that shard.
//   - If the caller names the instant, all shards are first asked for their latest
//     charge, and an instant before that counts as it. So AllowN and TakeAt do not scale
//     as Allow does.
type Sharded struct {
	caller
	seed   maphash.Seed
	shards []shard
	near   sync.Pool     // of *shard: mostly one for each processor
	next   atomic.Uint64 // how many shards near was given
	origin time.Time     // instants are nanoseconds since
	named  atomic.Int64  // the latest charge at an instant that a caller named
}

// never is before all instants.
const never = math.MinInt64

// maxShards is more than any machine has processors, and takes some 20 MB.
const maxShards = 1 << 16

// NewSharded returns a Sharded with its whole burst. One shard for each processor
// (runtime.GOMAXPROCS) is enough; use at most burst divided by the largest request. It
// returns an error that matches ErrInvalid for a rate that is not positive, for a burst or
// a number of shards below 1, for more shards than burst or than 65536, and for a burst of
// a shard that takes longer than 36 years at its rate.
func NewSharded(rate Rate, burst, shards int) (*Sharded, error) {
	const operation = "new sharded"
	if err := rate.validate(operation); err != nil {
		return nil, err
	}
	switch {
	case burst <= 0:
		return nil, fmt.Errorf("%s: %w: burst is %d, want 1 or more", operation, ErrInvalid, burst)
	case shards <= 0:
		return nil, fmt.Errorf("%s: %w: shards is %d, want 1 or more", operation, ErrInvalid, shards)
	case shards > burst:
		return nil, fmt.Errorf("%s: %w: shards is %d, want at most burst, which is %d", operation, ErrInvalid, shards, burst)
	case shards > maxShards:
		return nil, fmt.Errorf("%s: %w: shards is %d, want at most %d", operation, ErrInvalid, shards, maxShards)
	case rate.Per > maxSpan/time.Duration(shards):
		return nil, fmt.Errorf("%s: %w: rate.Per is %v, want at most %v with %d shards",
			operation, ErrInvalid, rate.Per, maxSpan/time.Duration(shards), shards)
	}
	s := &Sharded{seed: maphash.MakeSeed(), shards: make([]shard, shards), origin: time.Now()}
	for i := range s.shards {
		part := burst / shards
		if i < burst%shards {
			part++
		}
		// The rate of a shard is Count/shards in Per, which is Count in Per × shards.
		b, err := newBucket(operation, "burst of a shard", rate.Count, rate.Per*time.Duration(shards), part)
		if err != nil {
			return nil, err
		}
		s.shards[i].of, s.shards[i].index, s.shards[i].account = s, i, newAccount(b)
		s.shards[i].seen.Store(never)
	}
	s.named.Store(never)
	s.near.New = func() any { return &s.shards[s.next.Add(1)%uint64(len(s.shards))] }
	s.init(s)
	return s, nil
}

// Allow reports whether one unit may pass now, and charges it if so. It looks only at as
// many shards as it needs.
func (s *Sharded) Allow() bool {
	named := s.named.Load()
	if named == never {
		return s.anyOf((*shard).allowNow)
	}
	now := time.Now()
	if named > int64(now.Sub(s.origin)) {
		now = s.origin.Add(time.Duration(named))
	}
	return s.anyTakes(now, 1)
}

// AllowN reports whether n units may pass at now, and charges them if so. It is TakeAt
// without the rest of the Decision.
func (s *Sharded) AllowN(now time.Time, n int) bool {
	at, _ := s.latest(now)
	ok := s.anyTakes(at, n)
	if ok && n > 0 {
		raise(&s.named, int64(now.Sub(s.origin)))
	}
	return ok
}

func (s *Sharded) anyTakes(now time.Time, n int) bool {
	return s.anyOf(func(part *shard) bool {
		_, d := part.try(now, n, charge)
		return d.OK
	})
}

// anyOf tries the shards until one admits. It begins with the shard that the processor used
// last, which is in its cache; a random one would mostly be in that of another processor.
func (s *Sharded) anyOf(try func(*shard) bool) bool {
	part := s.near.Get().(*shard)
	defer func() { s.near.Put(part) }()
	for range s.shards {
		if try(part) {
			return true
		}
		part = s.at(part.index + 1)
	}
	return false
}

// latest returns the instant as which now counts, and how far that is ahead of now. A shard
// alone cannot know that the clock of the callers went back: if it was not charged for a
// while, that time would drain it twice.
func (s *Sharded) latest(now time.Time) (at time.Time, ahead time.Duration) {
	latest := int64(never)
	for i := range s.shards {
		latest = max(latest, s.shards[i].seen.Load())
	}
	if latest <= int64(now.Sub(s.origin)) {
		return now, 0
	}
	at = s.origin.Add(time.Duration(latest))
	return at, at.Sub(now)
}

// raise makes v at least x.
func raise(v *atomic.Int64, x int64) {
	for {
		old := v.Load()
		if old >= x || v.CompareAndSwap(old, x) {
			return
		}
	}
}

// at returns the shard of an index below twice their number, modulo that.
func (s *Sharded) at(i int) *shard {
	if i >= len(s.shards) {
		i -= len(s.shards)
	}
	return &s.shards[i]
}

// TakeAt charges n units at now to a shard in which all of them may pass.
func (s *Sharded) TakeAt(now time.Time, n int) Decision {
	_, d := s.tryAt(now, n, charge, rand.IntN(len(s.shards)), len(s.shards))
	return d
}

func (s *Sharded) peekAt(now time.Time, n int) Decision {
	_, d := s.tryAt(now, n, peek, rand.IntN(len(s.shards)), len(s.shards))
	return d
}

// HoldAt sets n units aside in a shard in which all of them may pass.
func (s *Sharded) HoldAt(now time.Time, n int) (Hold, Decision) {
	return s.tryAt(now, n, hold, rand.IntN(len(s.shards)), len(s.shards))
}

// tryAt tries count shards, from the one at start on, until one admits n units, and combines the
// decisions of all of them. It records for Allow the instant of a charge or a hold.
func (s *Sharded) tryAt(now time.Time, n int, is purpose, start, count int) (h Hold, total Decision) {
	total.Never = true
	at, ahead := s.latest(now)
	for i := range count {
		var d Decision
		if total.OK {
			_, d = s.at(start+i).try(at, 0, peek)
		} else if h, d = s.at(start+i).try(at, n, is); d.OK {
			total.OK, total.Never, total.RetryAfter = true, false, 0
		} else if !d.Never {
			total.Never = false
			if d.RetryAfter > 0 && (total.RetryAfter == 0 || d.RetryAfter < total.RetryAfter) {
				total.RetryAfter = d.RetryAfter
			}
		}
		total.Remaining += d.Remaining
		total.ResetAfter = max(total.ResetAfter, d.ResetAfter)
	}
	if is != peek && total.OK && n > 0 {
		raise(&s.named, int64(now.Sub(s.origin)))
	}
	return h, total.asOf(ahead)
}

// Shard returns the shard of a key as a limiter, always the same for a key. All keys of a
// shard share its part of the rate and the burst with each other and with the requests
// without a key.
func (s *Sharded) Shard(key string) Holder {
	i, _ := bits.Mul64(maphash.String(s.seed, key), uint64(len(s.shards)))
	return &s.shards[i]
}
