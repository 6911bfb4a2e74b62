package keyed

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/breaker"
)

const (
	// freshFor is how long a read of the Origin answers for its cells, in request time: the
	// instants that requests name.
	freshFor = 5 * time.Second
	// readTimeout is how long a read may take, and retryAfter how long after a failed one the
	// next is tried, in request time.
	readTimeout = 300 * time.Millisecond
	retryAfter  = 300 * time.Millisecond
	// leastPatience is how long a read waits at least for a replay that it may contain.
	leastPatience = 10 * time.Millisecond
	// breakerOpen is how long nothing is read once half of at least 20 reads within 5 s failed.
	breakerOpen = 5 * time.Second
	// addTimeout is how long one attempt of a replay may take.
	addTimeout = time.Second
	// boldShare is the part of what is left that a process charges on an old reply: a sixteenth. A
	// reply is young for youngTrips times as long as it took, which counts as leastTrip at least.
	boldShare  = 16
	youngTrips = 3
	leastTrip  = 3 * time.Millisecond
	// maxAbandoned bounds the reads that went on after their timeout.
	maxAbandoned = 100
	// leastOrphans is the least of the bound of remote.orphans.
	leastOrphans = 1024
)

// remote is what a Limiter shares with others: with other processes by an Origin, with other
// regions by an Exchange. Locks are taken in the order shard, entry, and one of remote's; none is
// held over a call of Origin, Exchange or OnError.
type remote struct {
	limiter  *Limiter
	origin   Origin         // or nil
	exchange Exchange       // or nil
	process  string         // of replays; unique
	errors   *throttle      // the Limiter's
	breaker  *breaker.Ratio // of reads

	abandoned atomic.Int64    // reads that go on after their timeout
	life      context.Context // of all reads and exchanges, and of pauses; ended by Close
	end       context.CancelFunc

	mu         sync.Mutex
	flights    map[*flight]struct{} // that have not ended
	queue      []*entry             // that have units to replay, in the order of their marks
	orphans    map[counter]*entry   // that left the table with units to replay
	maxOrphans int                  // bound of orphans
	replays    int64                // number of the latest replay
	unsent     *replay              // that is not acknowledged yet, or nil
	idle       chan struct{}        // of the goroutine that replays: closed when it ends; or nil
	cancel     context.CancelFunc   // ends that goroutine
	attempted  chan struct{}        // closed when the latest attempt has ended; nil before the first
	rests      time.Time            // until when the breaker is open, by the clock of this process

	regions   regions
	every     time.Duration // interval between exchanges
	exchanged chan struct{} // closed when the goroutine that exchanges has ended
	cursor    string        // of the next Pull; that goroutine's
}

// counter is the name of a counter.
type counter struct {
	namespace, key string
	window         time.Duration
}

func (e *entry) counter() counter { return counter{e.kind.namespace, e.name(), e.kind.window} }

func (c counter) cell(sequence int64) Cell { return Cell{c.namespace, c.key, c.window, sequence} }

func newRemote(l *Limiter, o Options) *remote {
	r := &remote{
		limiter:    l,
		origin:     o.Origin,
		exchange:   o.Exchange,
		errors:     &l.errors,
		process:    rand.Text(),
		orphans:    map[counter]*entry{},
		maxOrphans: max(o.MaxKeys, leastOrphans),
		every:      cmp.Or(o.ExchangeEvery, time.Second),
		flights:    map[*flight]struct{}{},
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.breaker = breaker.New(breaker.Settings{Open: breakerOpen})
	r.regions.region, r.regions.most = o.Region, o.MaxKeys
	r.regions.rows = map[counter][]regionCell{}
	return r
}

// open returns the ledger of a new entry.
func (r *remote) open(e *entry) *ledger {
	g := &ledger{remote: r, window: int64(e.kind.window), counter: e.counter()}
	g.freshUntil.Store(math.MinInt64)
	g.strictUntil.Store(math.MinInt64)
	g.youngUntil.Store(math.MinInt64)
	g.cells = append(g.cells, account{sequence: e.sequenceLocked()})
	return g
}

// orphan returns the entry of a counter that left the table with units to replay, or nil. It is
// an orphan no more, unless it is only to be looked at.
func (r *remote) orphan(v *visit, p purpose) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := counter{v.Namespace, v.Key, v.Window}
	e := r.orphans[c]
	if p != peeking {
		delete(r.orphans, c)
	}
	return e
}

// detach reports whether an entry, which the caller has locked, may leave the table. If it has
// units to replay, it is kept as an orphan until they are acknowledged.
func (r *remote) detach(e *entry) bool {
	if r.origin == nil || e.ledger.unacknowledgedLocked(e) == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.orphans) >= r.maxOrphans {
		return false
	}
	r.orphans[e.ledger.counter] = e
	return true
}

// settledLocked forgets an orphan that has nothing to replay any more. The caller has locked it.
func (r *remote) settledLocked(e *entry) {
	if !e.dead || e.ledger.unacknowledgedLocked(e) > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.orphans[e.ledger.counter] == e {
		delete(r.orphans, e.ledger.counter)
	}
}

// charged is called after units of an entry were charged, at an instant in Unix nanoseconds.
func (r *remote) charged(e *entry, limit, cost int, at int64) {
	g := e.ledger
	g.since.Add(uint64(cost))
	g.latest.Store(at)
	if r.origin != nil && !g.queued.Load() {
		r.enqueue(e)
	}
	if r.exchange == nil {
		return
	}
	if limit := int64(limit); g.limit.Load() != limit {
		g.limit.Store(limit)
	}
	r.markGrown(e)
}

// denied is called after a refusal that more units of others can explain. For one window, requests
// that this process would admit ask the Origin first.
func (r *remote) denied(e *entry, at int64) {
	if r.origin == nil {
		return
	}
	g := e.ledger
	until := at + g.window
	for {
		was := g.strictUntil.Load()
		if g.strict(at) && was >= until || g.strictUntil.CompareAndSwap(was, until) {
			return
		}
	}
}

// importLocked has an entry count what is known of others.
func (r *remote) importLocked(e *entry) {
	g, sequence := e.ledger, e.sequenceLocked()
	e.importLocked(g.othersLocked(sequence, e.ownLocked()), g.previousLocked(sequence))
}

// close waits until all units are acknowledged, or for the end of ctx, and ends all goroutines.
func (r *remote) close(ctx context.Context) error {
	r.end()
	r.endFlights(ctx)
	err := r.drain(ctx)
	if r.exchange != nil {
		err = errors.Join(err, r.lastPush(ctx))
	}
	return err
}

// call calls a method of an Origin or an Exchange, with a context that ends after some time. A
// panic in it is an error.
func call(ctx context.Context, timeout time.Duration, method func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	returned := false
	defer func() {
		if !returned {
			err = fmt.Errorf("panic: %v", recover())
		}
	}()
	err = method(ctx)
	returned = true
	return err
}

// failed tells OnError of a call that failed, unless Close ended it.
func (r *remote) failed(kind string, err error) {
	if err != nil && r.life.Err() == nil {
		r.errors.send(kind, err)
	}
}

// throttle reports errors: at most one a second of a kind, one at a time.
type throttle struct {
	report func(error) // or nil
	mu     sync.Mutex
	busy   bool
	last   map[string]time.Time // of each kind
}

func (t *throttle) send(kind string, err error) {
	if t.report == nil || !t.begin(kind) {
		return
	}
	defer t.end()
	t.report(fmt.Errorf("%s: %w", kind, err))
}

func (t *throttle) begin(kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if last, ok := t.last[kind]; t.busy || ok && now.Sub(last) < time.Second {
		return false
	}
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	t.last[kind] = now
	t.busy = true
	return true
}

func (t *throttle) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
}
