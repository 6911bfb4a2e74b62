package keyed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// TakeAll is TakeAllAt at time.Now.
func (l *Limiter) TakeAll(ctx context.Context, requests ...Request) ([]limit.Decision, error) {
	return l.TakeAllAt(ctx, time.Now(), requests...)
}

// TakeAllAt charges all requests at now if all of them fit, and none otherwise. They passed if
// and only if every Decision is OK; the Decisions are in the order of the requests, which stay as
// they are. Each request is decided as if those before it on the same counter had been charged, so
// a counter may occur several times.
//
// If the batch is refused, the Decisions that are not OK are of the requests that stand in its
// way. The batch passes after the largest RetryAfter of these, unless one of them is Never or
// waits for the end of a Hold. The other Decisions are those of a peek. Nobody else is refused
// because of a batch that is. The errors are those of TakeAt, and charge nothing.
func (l *Limiter) TakeAllAt(ctx context.Context, now time.Time, requests ...Request) ([]limit.Decision, error) {
	b, err := l.decideAll(ctx, "take", now, requests, charging)
	if err != nil {
		return nil, err
	}
	defer b.recycle()
	return b.decisions, nil
}

// decideAll returns a batch that is decided, or the error of its first request that has one.
func (l *Limiter) decideAll(ctx context.Context, operation string, now time.Time, requests []Request, p purpose) (*batch, error) {
	if l.closed.Load() {
		return nil, fmt.Errorf("%s: %w", operation, ErrClosed)
	}
	for _, r := range requests { // a copy, which check resolves
		if err := l.check(operation, &r); err != nil {
			return nil, err
		}
	}
	b := batches.Get().(*batch)
	b.limiter, b.requests, b.purpose = l, requests, p
	b.decide(ctx, now)
	return b, nil
}

// batches are batches that are not in use. A batch that is larger than mostMembers does not become
// one.
var batches = sync.Pool{New: func() any { return new(batch) }}

const mostMembers = 64

// recycle gives up a batch, but for its decisions.
func (b *batch) recycle() {
	if cap(b.members) > mostMembers {
		return
	}
	clear(b.members)
	clear(b.pinned)
	*b = batch{members: b.members[:0], pinned: b.pinned[:0]}
	batches.Put(b)
}

// batch is several requests of which all are admitted or none.
type batch struct {
	limiter   *Limiter
	requests  []Request
	purpose   purpose // charging or holding
	members   []member
	pinned    []*member // the first of each counter that has an entry
	decisions []limit.Decision
}

// member is a visit of a batch, and the entry of its counter.
type member struct {
	visit
	entry *entry // nil until joined, and for counters that are only looked at
	first int    // the index of the first member with the same counter
	want  int    // the cost of this and of all members before it with the same counter
	never bool   // want would be above what an int holds
	total int    // of the first member: the cost of all with the same counter
}

// decide decides on the batch: first without a lock or a trace, and if all fits, under the locks
// of all entries.
func (b *batch) decide(ctx context.Context, now time.Time) {
	b.decisions = make([]limit.Decision, len(b.requests))
	if len(b.requests) == 0 {
		return
	}
	b.enlist(now)
	for k := range b.members {
		m := &b.members[k]
		b.limiter.tidy(m.shard, now, m.nanos)
		if !m.never {
			b.decisions[k] = b.limiter.glance(&m.visit, m.want)
			continue
		}
		d := b.limiter.glance(&m.visit, 0)
		b.decisions[k] = limit.Decision{Never: true, Remaining: d.Remaining, ResetAfter: d.ResetAfter}
	}
	if !b.passes() || !b.join(ctx) {
		b.refuse()
		return
	}
	if !b.ask(ctx) {
		b.leave()
		b.refuse()
		return
	}
	if !b.commit() {
		b.refuse()
	}
}

// enlist makes the members.
func (b *batch) enlist(now time.Time) {
	b.members = slices.Grow(b.members, len(b.requests))[:len(b.requests)]
	for k := range b.members {
		m := &b.members[k]
		b.limiter.prepare(&m.visit, now, &b.requests[k])
		m.resolve()
		m.first, m.want = k, m.Cost
		for before := k - 1; before >= 0; before-- {
			o := &b.members[before]
			if o.hash == m.hash && o.sameCounter(&m.Request) {
				m.first, m.never = o.first, o.never || o.want > math.MaxInt-m.want
				m.want += min(o.want, math.MaxInt-m.want)
				break
			}
		}
		b.members[m.first].total = m.want
	}
}

func (r *Request) sameCounter(o *Request) bool {
	return r.Key == o.Key && r.Window == o.Window && r.Namespace == o.Namespace
}

func (b *batch) passes() bool {
	for _, d := range b.decisions {
		if !d.OK {
			return false
		}
	}
	return true
}

// glance decides on cost units of a visit's counter as things are, and changes nothing.
func (l *Limiter) glance(v *visit, cost int) limit.Decision {
	s := v.shard
	e := s.table.Load().find(v.hash, &v.Request)
	if e == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e = s.table.Load().find(v.hash, &v.Request); e == nil {
			d, unknown := l.firstLocked(v, cost)
			if unknown && l.refuse {
				return l.counted(d, charging)
			}
			return d
		}
	}
	s.touch(e)
	return e.peek(&v.instant, v.Limit, cost)
}

// join pins the entries of all members, and makes those that there are not. It returns false, with
// the decision in its place, if one is refused or there is no room for it.
func (b *batch) join(ctx context.Context) bool {
	for k := range b.members {
		m := &b.members[k]
		if m.first != k {
			m.entry = b.members[m.first].entry
			continue
		}
		if m.total == 0 && b.purpose == charging && b.limiter.remote == nil {
			continue // of a counter that is only looked at, the first look stands
		}
		var d limit.Decision
		if d, m.entry = b.limiter.receive(ctx, &m.visit, joining); m.entry == nil {
			if m.total == 0 && b.purpose == charging && d.OK {
				b.decisions[k] = d
				continue
			}
			b.decisions[k] = withoutEntry(d)
			b.leave()
			return false
		}
		b.pinned = append(b.pinned, m)
	}
	return true
}

// leave unpins the entries.
func (b *batch) leave() {
	for _, m := range b.pinned {
		m.entry.lock()
		m.entry.pins--
		m.entry.unlock()
	}
}

// ask asks the Origin for all counts that are due, at once. It returns false, with the decision in
// its place, if a key may have been evicted and the Origin did not answer.
func (b *batch) ask(ctx context.Context) bool {
	if b.limiter.remote == nil {
		return true
	}
	var due []*entry
	nanos := b.members[0].nanos
	for _, m := range b.pinned {
		left := b.decisions[m.first].Remaining - (m.total - m.want)
		if g := m.entry.ledger; g.doubts(nanos) && g.asks(nanos, m.total, left) {
			due = append(due, m.entry)
		}
	}
	if len(due) > 0 {
		b.limiter.remote.ask(ctx, nanos, due...)
	}
	for k := range b.members {
		m := &b.members[k]
		if m.entry == nil {
			continue
		}
		if d, unknown := m.unread(m.entry); unknown {
			b.decisions[k] = b.limiter.counted(d, charging)
		}
	}
	return b.passes()
}

// commit decides under the locks of all entries, in one order, charges them or holds if all
// fit, and unpins them.
func (b *batch) commit() bool {
	slices.SortFunc(b.pinned, (*member).compare)
	for _, m := range b.pinned {
		m.entry.lock()
	}
	for k := range b.members {
		m := &b.members[k]
		if m.entry == nil {
			continue
		}
		if m.entry.ledger != nil {
			m.entry.rollLocked(m.sequence)
		}
		b.decisions[k] = m.entry.decideLocked(&m.instant, m.Limit, m.want)
	}
	passes := b.passes()
	for k := range b.members {
		if m := &b.members[k]; passes && m.entry != nil {
			m.entry.admitLocked(&m.instant, &m.Request, b.purpose, &b.decisions[k])
		}
	}
	for _, m := range b.pinned {
		m.entry.pins--
		m.entry.unlock()
	}
	if passes && b.purpose == charging {
		b.charged()
	}
	return passes
}

// compare orders counters, by hash and then by name.
func (m *member) compare(o *member) int {
	if m.hash != o.hash {
		return cmp.Compare(m.hash, o.hash)
	}
	return compareCells(Cell{m.Namespace, m.Key, m.Window, 0}, Cell{o.Namespace, o.Key, o.Window, 0})
}

// charged tells the Origin's side of what was charged.
func (b *batch) charged() {
	if b.limiter.remote == nil {
		return
	}
	for k := range b.members {
		if m := &b.members[k]; m.Cost > 0 {
			b.limiter.remote.charged(m.entry, m.Limit, m.Cost, m.nanos)
		}
	}
}

// refuse makes the decisions of a batch that charged nothing.
func (b *batch) refuse() {
	for k := range b.members {
		m := &b.members[k]
		switch d := b.decisions[k]; {
		case d.OK:
			peek := b.limiter.glance(&m.visit, 0)
			b.decisions[k].Remaining, b.decisions[k].ResetAfter = peek.Remaining, peek.ResetAfter
		case b.limiter.remote != nil && !d.Never:
			if e := b.limiter.find(&m.Request); e != nil {
				b.limiter.remote.denied(e, m.nanos)
			}
		}
	}
}
