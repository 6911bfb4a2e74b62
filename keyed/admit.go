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
	hash := l.hash(r.Namespace, r.Key, r.Window)
	s := l.shard(hash)
	e := s.table.Load().find(hash, r)
	i := instantOf(now, r.Window)
	if e == nil || l.remote != nil || l.isDue(s, i.nanos) {
		d, _ = l.admit(ctx, now, r, charging)
		return d, nil
	}
	s.touch(e)
	if !e.take(&i, r, &d) {
		d, _ = l.admit(ctx, now, r, charging)
	}
	return d, nil
}

// check returns the error of a request that cannot be decided.
func (l *Limiter) check(operation string, r *Request) error {
	if l.closed.Load() {
		return fmt.Errorf("%s: %w", operation, ErrClosed)
	}
	if r.valid() {
		return nil
	}
	return r.validate(operation)
}

// admit decides on a request. It returns the entry as well if it has one.
func (l *Limiter) admit(ctx context.Context, now time.Time, r *Request, p purpose) (limit.Decision, *entry) {
	i := instantOf(now, r.Window)
	hash := l.hash(r.Namespace, r.Key, r.Window)
	s := l.shard(hash)
	l.tidy(s, now, i.nanos)
	for {
		e := s.table.Load().find(hash, r)
		if e == nil {
			made, d, o := l.add(s, hash, now, r, p)
			if made == nil || o == decided && l.remote == nil {
				return d, made
			}
			e = made
		}
		s.touch(e)
		d, o := l.decide(ctx, s, e, &i, now, r, p)
		if o == decided {
			return d, e
		}
		s.settle()
	}
}

// decide decides on a request by its entry.
func (l *Limiter) decide(ctx context.Context, s *shard, e *entry, i *instant, now time.Time, r *Request, p purpose) (d limit.Decision, o outcome) {
	if l.remote != nil {
		return l.decideShared(ctx, s, e, i, now, r, p)
	}
	return e.admit(i, r, p)
}

func (e *entry) admit(i *instant, r *Request, p purpose) (d limit.Decision, o outcome) {
	switch {
	case p == holding:
		return e.holdSlowly(i, r)
	case e.take(i, r, &d):
		return d, decided
	}
	return e.takeSlowly(i, r)
}

// decideShared is decide with an Origin or an Exchange. It asks the Origin before it admits, if
// its counts are due, or too old for what it charges. A refusal asks nothing.
func (l *Limiter) decideShared(ctx context.Context, s *shard, e *entry, i *instant, now time.Time, r *Request, p purpose) (d limit.Decision, o outcome) {
	if e.ledger.doubts(i.nanos) {
		d = e.peek(i, r.Limit, r.Cost)
		if d.OK && e.ledger.asks(i.nanos, r.Cost, d.Remaining) {
			l.remote.ask(ctx, i.nanos, e)
		}
	}
	if d, unknown := s.unread(e, now, r); unknown && (!d.OK || p == charging) {
		return l.counted(d), decided
	}
	d, o = e.admit(i, r, p)
	switch {
	case o != decided:
	case d.OK && r.Cost > 0 && p == charging:
		l.remote.charged(e, r.Limit, r.Cost, i.nanos)
	case !d.OK && !d.Never:
		l.remote.denied(e, i.nanos)
	}
	return d, o
}

// unread returns the decision on a request for a key that may have been evicted, while the Origin
// has not told what it was charged.
func (s *shard) unread(e *entry, now time.Time, r *Request) (d limit.Decision, unknown bool) {
	if !e.ledger.unread.Load() {
		return d, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, unknown = s.unknownLocked(now, r); !unknown {
		e.ledger.unread.Store(false)
	}
	return d, unknown
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
