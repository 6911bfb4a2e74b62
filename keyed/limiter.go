package keyed

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// DefaultMaxKeys is the number of counters that a Limiter keeps if Options.MaxKeys is 0.
const DefaultMaxKeys = 1_000_000

var (
	// ErrInvalid is limit.ErrInvalid. It is returned for a field out of range, with an error
	// that names the field and its value.
	ErrInvalid = limit.ErrInvalid

	// ErrClosed is returned for requests after Close.
	ErrClosed = errors.New("limiter is closed")

	// ErrFull tells that there is no room for a counter. OnError gets it with how many counters
	// were evicted and how many requests were refused: see Stats.
	ErrFull = errors.New("more counters than MaxKeys")
)

// Options configure a Limiter. The zero Options are those of a process alone.
type Options struct {
	// Origin keeps the counts that several processes share. Nil: this process counts alone.
	Origin Origin
	// MaxKeys bounds the counters that are kept, in number. 0 is DefaultMaxKeys. It should be well
	// above the number of counters that are charged within two windows: a few too many get others
	// refused. See Limiter, and Stats.
	MaxKeys int
	// RefuseEvicted refuses, also with an Origin, keys that are not resident for as long as a
	// counter evicted from their shard would count. Without an Origin that is always so.
	RefuseEvicted bool
	// Exchange carries the counts of other regions. Nil: there are none. The first exchange
	// begins with New, in a goroutine that Close ends. Requests that come before it has ended
	// do not see other regions.
	Exchange Exchange
	// Region names this region. It is required with Exchange.
	Region string
	// ExchangeEvery is the interval between exchanges. 0 is one second.
	ExchangeEvery time.Duration
	// OnError gets the failures of Origin and Exchange, and ErrFull: at most one a second of a
	// kind, one call at a time, from another goroutine. Nil discards them.
	OnError func(error)
}

// validate returns an error that names the field out of range.
func (o *Options) validate() error {
	const operation = "new keyed limiter"
	switch {
	case o.MaxKeys < 0:
		return fmt.Errorf("%s: %w: MaxKeys is %d, want 0 or more", operation, ErrInvalid, o.MaxKeys)
	case o.ExchangeEvery < 0:
		return fmt.Errorf("%s: %w: ExchangeEvery is %v, want 0 or more", operation, ErrInvalid, o.ExchangeEvery)
	case o.Exchange != nil && o.Region == "":
		return fmt.Errorf("%s: %w: Region is empty, want a name with Exchange", operation, ErrInvalid)
	}
	return nil
}

// Limiter decides requests on counters, of which each has a name of its own: see Request. Make it
// with New: the zero Limiter must not be used. It is safe for concurrent use.
//
// A counter is kept from its first charge until it has no weight any more: up to two windows, and
// until later requests come, each of which removes a few. The counters lie in shards: one if
// Options.MaxKeys is below 32, and up to 1,024 above. A Limiter never has more than MaxKeys
// counters in them. Beside those it keeps up to as many, or 1,024, with units that an Origin does
// not have yet, and the rows of up to MaxKeys counters of an Exchange.
//
// To make room for a new counter, a Limiter looks at a few of its shard. It removes those that
// have no weight any more, or else evicts the one that was used longest ago, though others
// elsewhere may have no weight; it never evicts one with an open Hold. After one that has weight
// was evicted without an Origin, keys of its shard that are not resident are refused until its
// weight is gone, and RetryAfter is exact to that instant. So no key gets its limit anew by
// flooding a Limiter with others. A caller that can flood it keeps new keys out for as long as
// that goes on, and for up to two windows after it. While all counters are on hold, a new key is
// refused with a RetryAfter of 0. Stats and OnError tell of all that.
//
// An instant that lies in an earlier cell than that of the last charge of the counter counts as
// the beginning of that cell. For a key without a counter, one before the last removal in its
// shard counts as that. So a clock that goes back admits nothing twice.
type Limiter struct {
	shards  []shard
	mask    uint32 // number of shards − 1; they are a power of two
	seed    maphash.Seed
	maxKeys int64
	remote  *remote // nil without Origin and Exchange
	refuse  bool    // keys that may have been evicted
	closed  atomic.Bool

	_      [64]byte      // what follows is written at times, what is above is not
	seen   atomic.Int64  // Unix nanoseconds of the last look at other shards
	count  atomic.Int64  // counters kept, and places taken for ones that are made
	cursor atomic.Uint32 // the shard that the last look was at
	kinds  kinds
	room   room
	errors throttle
}

// New returns a Limiter without counters. Where one process has one limit a key, limit.Keyed will
// do: see the package comment. New returns an error that matches ErrInvalid for a negative MaxKeys
// or ExchangeEvery, and for an Exchange without a Region. Without Origin and Exchange the Limiter
// has no goroutine and need not be closed.
func New(options Options) (*Limiter, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	if options.MaxKeys == 0 {
		options.MaxKeys = DefaultMaxKeys
	}
	shards := 1 << (bits.Len(uint(min(max(options.MaxKeys/keysPerShard, 1), maxShards))) - 1)
	l := &Limiter{
		shards:  make([]shard, shards),
		mask:    uint32(shards - 1),
		seed:    maphash.MakeSeed(),
		maxKeys: int64(options.MaxKeys),
		refuse:  options.Origin == nil || options.RefuseEvicted,
	}
	for i := range l.shards {
		l.shards[i].init()
	}
	l.errors.report = options.OnError
	if options.Origin != nil || options.Exchange != nil {
		l.remote = newRemote(l, options)
	}
	if options.Exchange != nil {
		l.remote.exchanged = make(chan struct{})
		go l.remote.exchangeAll()
	}
	return l, nil
}

// The number of shards: one for 16 keys of MaxKeys, so that the eviction of one counter concerns
// few others.
const (
	keysPerShard = 16
	maxShards    = 1024
)

// hash returns the hash of a counter's name. Each part is hashed on its own, so no two parts can
// be mistaken for one.
func (l *Limiter) hash(r *Request) uint64 {
	key, namespace := maphash.String(l.seed, r.Key), maphash.String(l.seed, r.Namespace)
	high, low := bits.Mul64(key^bits.RotateLeft64(namespace, 31)^uint64(r.Window), 0x9e3779b97f4a7c15)
	return high ^ low
}

// shard returns the shard of a hash.
func (l *Limiter) shard(hash uint64) *shard { return &l.shards[uint32(hash)&l.mask] }

// find returns the entry of a request's counter, or nil. It adds nothing, and the entry does not
// count as used.
func (l *Limiter) find(r *Request) *entry {
	hash := l.hash(r)
	s := l.shard(hash)
	if e := s.table.Load().find(hash, r); e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Load().find(hash, r)
}

// Len returns the number of counters that are kept. It first removes all that have expired by the
// time of the last requests, and takes time in proportion to what it removes.
func (l *Limiter) Len() int {
	nanos := l.seen.Load()
	n := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		l.sweepLocked(s, time.Unix(0, nanos), nanos, len(s.queue))
		n += len(s.queue)
		s.mu.Unlock()
	}
	return n
}

// Close ends the Limiter: requests return ErrClosed from then on. With an Origin it waits until all
// charges are acknowledged, or for the end of ctx; with an Exchange it then pushes once what has
// grown. It returns an error that wraps that of ctx or of the Push. Called again, it does all that
// again, so that charges of Holds that ended after Close are delivered too. Without Origin and
// Exchange it returns nil at once.
func (l *Limiter) Close(ctx context.Context) error {
	l.closed.Store(true)
	if l.remote == nil {
		return nil
	}
	return l.remote.close(ctx)
}

// kinds keeps the kinds that were used last, so that the counters of one kind share one.
type kinds struct {
	mu   sync.Mutex
	last [16]*kind
	next int
}

// get returns the kind of a request. It keeps a copy of the namespace.
func (k *kinds) get(r *Request) *kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, known := range k.last {
		if known != nil && known.window == r.Window && known.namespace == r.Namespace {
			return known
		}
	}
	made := &kind{namespace: strings.Clone(r.Namespace), window: r.Window}
	k.last[k.next] = made
	k.next = (k.next + 1) % len(k.last)
	return made
}
