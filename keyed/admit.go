package keyed

import (
	"context"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Take is TakeAt at time.Now.
func (l *Limiter) Take(ctx context.Context, r Request) (limit.Decision, error) {
	return l.take(ctx, time.Now(), &r)
}

// TakeAt charges the cost of r at now if it fits: if and only if
//
//	current + ⌊previous × (Window−elapsed) / Window⌋ + held + Cost ≤ Limit
//
// where current and previous are the units charged in the cell of now and in the one before,
// elapsed is the part of the cell that has passed, and held are the units of open holds. A refusal
// is a Decision, and charges nothing. Cost above Limit is refused with Never.
// If only the end of a Hold helps, RetryAfter is 0.
//
// TakeAt returns an error that matches ErrInvalid for a field of r out of range, and ErrClosed
// after Close. A failing Origin is no error: the decision is then that of this process. Without an
// Origin TakeAt does not use ctx; with one, the end of ctx ends the wait for it, and is no error
// either.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, r Request) (limit.Decision, error) {
	return l.take(ctx, now, &r)
}

// take does the usual case by itself: the key has an entry, nothing is due, and no lock is needed.
func (l *Limiter) take(ctx context.Context, now time.Time, r *Request) (d limit.Decision, err error) {
	if l.closed.Load() || !r.valid() {
		return d, l.check("take", r)
	}
	r.resolve()
	if l.remote == nil {
		hash := l.hash(r)
		s := l.shard(hash)
		i := instantOf(now, r.Window)
		if e := s.table.Load().find(hash, r); e != nil && !l.isDue(s, i.nanos) {
			s.touch(e)
			if e.take(&i, r, &d) {
				return d, nil
			}
		}
	}
	d, _ = l.admit(ctx, now, r, charging)
	return d, nil
}

// check returns the error of a request that cannot be decided, and resolves any other.
func (l *Limiter) check(operation string, r *Request) error {
	if l.closed.Load() {
		return fmt.Errorf("%s: %w", operation, ErrClosed)
	}
	if err := r.validate(operation); err != nil {
		return err
	}
	r.resolve()
	return nil
}

// visit is a request at an instant, and where its counter belongs.
type visit struct {
	Request // resolved
	instant
	now   time.Time
	shard *shard
	hash  uint64
}

// prepare makes a visit of a request, in its place: a visit is large.
func (l *Limiter) prepare(v *visit, now time.Time, r *Request) {
	v.Request, v.now = *r, now
	v.instant = instantOf(now, r.Window)
	v.hash = l.hash(r)
	v.shard = l.shard(v.hash)
}

// admit does what a request is for. It returns the entry as well if it has one.
func (l *Limiter) admit(ctx context.Context, now time.Time, r *Request, p purpose) (limit.Decision, *entry) {
	var v visit
	l.prepare(&v, now, r)
	if p == charging || p == holding {
		l.tidy(v.shard, now, v.nanos)
	}
	return l.receive(ctx, &v, p)
}

// receive does what a visit is for, with the entry of its counter, which it makes if it has to.
func (l *Limiter) receive(ctx context.Context, v *visit, p purpose) (limit.Decision, *entry) {
	for {
		e := v.shard.table.Load().find(v.hash, &v.Request)
		if e == nil {
			var d limit.Decision
			if e, d = l.add(v, p); e == nil {
				return d, nil
			}
		}
		if p == charging || p == holding {
			v.shard.touch(e)
		}
		if d, ok := l.serve(ctx, v, e, p); ok {
			return d, e
		}
		v.shard.settle()
	}
}

// serve does with an entry what a visit is for. With an Origin it asks that before it admits, if
// its counts are due, or too old for what it charges. A refusal asks nothing.
func (l *Limiter) serve(ctx context.Context, v *visit, e *entry, p purpose) (limit.Decision, bool) {
	if l.remote == nil || p == joining {
		return e.serve(&v.instant, &v.Request, p)
	}
	if g := e.ledger; g.doubts(v.nanos) {
		if d := e.peek(&v.instant, v.Limit, v.Cost); d.OK && g.asks(v.nanos, v.Cost, d.Remaining) {
			l.remote.ask(ctx, v.nanos, e)
		}
	}
	if d, unknown := v.unread(e); unknown && (!d.OK || p != holding) {
		return l.counted(d, p), true
	}
	d, ok := e.serve(&v.instant, &v.Request, p)
	switch {
	case !ok || p == peeking:
	case d.OK && v.Cost > 0 && p == charging:
		l.remote.charged(e, v.Limit, v.Cost, v.nanos)
	case !d.OK && !d.Never:
		l.remote.denied(e, v.nanos)
	}
	return d, ok
}

// unread returns the decision on a request for a key that may have been evicted, while the Origin
// has not told what it was charged.
func (v *visit) unread(e *entry) (d limit.Decision, unknown bool) {
	if !e.ledger.unread.Load() {
		return d, false
	}
	v.shard.mu.Lock()
	defer v.shard.mu.Unlock()
	if d, unknown = v.unknownLocked(v.Cost); !unknown {
		e.ledger.unread.Store(false)
	}
	return d, unknown
}

// unknownLocked returns the decision on cost units of a key that may have been evicted: it counts
// as used up until then. ok is false if the key cannot have been evicted.
func (v *visit) unknownLocked(cost int) (d limit.Decision, ok bool) {
	wait := v.shard.blocked.Sub(v.now)
	if wait <= 0 {
		return d, false
	}
	d = limit.Decision{OK: cost == 0, Never: cost > v.Limit, ResetAfter: wait}
	if !d.OK && !d.Never {
		d.RetryAfter = wait
	}
	return d, true
}

// touch records that an entry is used.
func (s *shard) touch(e *entry) {
	if tick := s.tick.Load(); e.used.Load() != tick {
		e.used.Store(tick)
	}
}

// settle waits until an entry that was found dead has left the table.
func (s *shard) settle() {
	s.mu.Lock() // which the goroutine that removes the entry has
	defer s.mu.Unlock()
}
