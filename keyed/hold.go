package keyed

import (
	"context"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Hold is a number of units set aside. The first call of Commit, CommitAt or Cancel ends it;
// later calls do nothing. The zero Hold, which comes with a refusal, has ended. A Hold that is
// never ended keeps its units, and the place of its counter, for ever. Copies of a Hold are the
// same Hold. Its methods are safe for concurrent use, wait for no Origin, and work after Close: the
// next Close tells the Origin what they charge then.
type Hold struct{ state *hold }

// hold is what the copies of a Hold share.
type hold struct {
	limiter *Limiter
	entry   *entry
	units   int
	limit   int // of the request
	ended   atomic.Bool
	commit  func(units int) // of another limiter, in place of all of these
}

// NewHold returns a Hold for limiters that are not of this package: commit gives back what is held
// and charges units, 0 for Cancel. It is called once at most.
func NewHold(commit func(units int)) Hold { return Hold{&hold{commit: commit}} }

// Commit is CommitAt at time.Now.
func (h Hold) Commit(cost int) { h.CommitAt(time.Now(), cost) }

// CommitAt gives the units back and charges cost in the cell of now, in one step. cost may differ
// from what was held. It is charged also if it exceeds the limit, since it was used already; the
// counter then admits nothing until its weight is below the limit. A negative cost counts as 0. An
// instant in an earlier cell than that of the last charge counts as in that cell.
func (h Hold) CommitAt(now time.Time, cost int) { h.end(now, max(cost, 0)) }

// Cancel gives the units back and charges nothing.
func (h Hold) Cancel() { h.end(time.Time{}, 0) }

func (h Hold) end(now time.Time, cost int) {
	s := h.state
	if s == nil || s.ended.Swap(true) {
		return
	}
	if s.commit != nil {
		s.commit(cost)
		return
	}
	e := s.entry
	var i instant
	e.lock()
	if cost > 0 {
		i = instantOf(now, e.kind.window)
		e.rollLocked(i.sequence)
	}
	c := e.countsLocked()
	c.held -= int64(s.units)
	c.current = addUnits(c.current, int64(cost))
	e.setLocked(c)
	e.pins--
	e.unlock()
	if cost > 0 && s.limiter.remote != nil {
		s.limiter.remote.charged(e, s.limit, cost, i.nanos)
	}
}

// Hold is HoldAt at time.Now.
func (l *Limiter) Hold(ctx context.Context, r Request) (Hold, limit.Decision, error) {
	return l.HoldAt(ctx, time.Now(), r)
}

// HoldAt decides like TakeAt, but what fits is set aside until the Hold ends, when it is known how
// much to charge. Units on hold are not charged: they belong to no cell, weigh the same in all of
// them, and no other process or region hears of them. A Cost of Free makes a Hold of 0 units. The
// errors are those of TakeAt.
func (l *Limiter) HoldAt(ctx context.Context, now time.Time, r Request) (Hold, limit.Decision, error) {
	if err := l.check("hold", &r); err != nil {
		return Hold{}, limit.Decision{}, err
	}
	d, e := l.admit(ctx, now, &r, holding)
	if !d.OK {
		return Hold{}, d, nil
	}
	return l.held(e, &r), d, nil
}

func (l *Limiter) held(e *entry, r *Request) Hold {
	return Hold{&hold{limiter: l, entry: e, units: r.Cost, limit: r.Limit}}
}

// HoldAll is HoldAllAt at time.Now.
func (l *Limiter) HoldAll(ctx context.Context, requests ...Request) ([]Hold, []limit.Decision, error) {
	return l.HoldAllAt(ctx, time.Now(), requests...)
}

// HoldAllAt decides like TakeAllAt, but what fits is set aside, with a Hold for each request, in
// their order. It returns no Holds if the batch is refused. The errors are those of TakeAt.
func (l *Limiter) HoldAllAt(ctx context.Context, now time.Time, requests ...Request) ([]Hold, []limit.Decision, error) {
	b, err := l.decideAll(ctx, "hold", now, requests, holding)
	if err != nil {
		return nil, nil, err
	}
	defer b.recycle()
	if !b.passes() {
		return nil, b.decisions, nil
	}
	holds := make([]Hold, len(requests))
	for k := range holds {
		holds[k] = l.held(b.members[k].entry, &b.members[k].Request)
	}
	return holds, b.decisions, nil
}
