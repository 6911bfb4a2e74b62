package keyed

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Peek is PeekAt at time.Now.
func (l *Limiter) Peek(ctx context.Context, r Request) (limit.Decision, error) {
	return l.PeekAt(ctx, time.Now(), r)
}

// PeekAt reports whether TakeAt would admit r at now, and charges nothing: Remaining and ResetAfter
// are without the cost of r. It makes no counter, so peeks at many keys take no room. The errors
// are those of TakeAt.
//
// With an Origin it asks that where TakeAt would. The answer for a key without a counter is not
// kept, so each peek at one asks. With an Origin or an Exchange a counter moves to the cell of now,
// as for a request.
func (l *Limiter) PeekAt(ctx context.Context, now time.Time, r Request) (limit.Decision, error) {
	if err := l.check("peek", &r); err != nil {
		return limit.Decision{}, err
	}
	r.resolve()
	e := l.find(r.Namespace, r.Key, r.Window)
	i := instantOf(now, r.Window)
	s := l.shard(l.hash(r.Namespace, r.Key, r.Window))
	if e == nil {
		var d limit.Decision
		if e, d = l.stranger(s, &i, now, &r); e == nil {
			return d, nil
		}
	}
	if l.remote != nil {
		if d, unknown := l.inquire(ctx, s, e, &i, now, &r); unknown {
			return d, nil
		}
	}
	c, at := e.weigh(&i)
	return c.look(&r, at), nil
}

// look decides on a request that is not charged.
func (c counts) look(r *Request, at weighing) limit.Decision {
	d := c.decide(r.Limit, r.Cost, at)
	if d.OK {
		without := c.decide(r.Limit, 0, at)
		d.Remaining, d.ResetAfter = without.Remaining, without.ResetAfter
	}
	return d
}

// stranger returns the decision on a peek at a key without an entry. With an Origin or an Exchange
// it returns an entry outside the table, to ask for, unless the key may have been evicted.
func (l *Limiter) stranger(s *shard, i *instant, now time.Time, r *Request) (*entry, limit.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, unknown := s.unknownLocked(now, r)
	if unknown && l.refuse {
		return nil, d
	}
	first := s.instantLocked(now, r.Window)
	if l.remote == nil {
		return nil, first.look(now, r)
	}
	*i = first
	if e := l.remote.peekOrphan(r); e != nil {
		return e, d
	}
	e := l.newEntry(r, i)
	e.ledger = l.remote.open(e)
	e.ledger.unread.Store(unknown)
	e.lock()
	defer e.unlock()
	l.remote.importLocked(e)
	return e, d
}

// look is decideFirst for a request that is not charged.
func (i *instant) look(now time.Time, r *Request) limit.Decision {
	d := i.decideFirst(now, r, joining)
	if d.OK {
		d.Remaining, d.ResetAfter = r.Limit, 0
	}
	return d
}

// peekOrphan returns the orphan of a counter, which stays one, or nil.
func (r *remote) peekOrphan(q *Request) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans[counter{q.Namespace, q.Key, q.Window}]
}

// inquire has an entry count what others charged, as a request would. It returns the decision if
// the key may have been evicted and the Origin did not answer.
func (l *Limiter) inquire(ctx context.Context, s *shard, e *entry, i *instant, now time.Time, r *Request) (d limit.Decision, unknown bool) {
	e.lock()
	e.rollLocked(i.sequence)
	e.unlock()
	if e.ledger.doubts(i.nanos) {
		if d := e.peek(i, r.Limit, r.Cost); d.OK && e.ledger.asks(i.nanos, r.Cost, d.Remaining) {
			l.remote.ask(ctx, i.nanos, e)
		}
	}
	return s.unread(e, now, r)
}
