package keyed

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Hold is a number of units set aside. The first call of Commit, CommitAt or Release ends it; later
// calls do nothing. The zero Hold, which comes with a refusal, has ended. A Hold that is never
// ended keeps its units, and its counter, for ever. Copies of a Hold are the same Hold. Its
// methods are safe for concurrent use, ask no Origin, and do no harm after Close.
type Hold struct{ state *hold }

type hold struct {
	limiter *Limiter
	request Request
	ended   bool
}

// Commit is CommitAt at time.Now.
func (h Hold) Commit(cost int64) { h.CommitAt(time.Now(), cost) }

// CommitAt gives the units back and charges cost at now, which may be less or more than what was
// held, and more than the limit. A negative cost counts as 0.
func (h Hold) CommitAt(now time.Time, cost int64) {
	h.finish(now, max(cost, 0))
}

// Release gives the units back.
func (h Hold) Release() { h.finish(time.Time{}, 0) }

func (h Hold) finish(now time.Time, cost int64) {
	s := h.state
	if s == nil {
		return
	}
	l := s.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	e := l.entryLocked(s.request)
	e.held -= s.request.Cost
	if cost > 0 {
		l.rollLocked(e, now, s.request)
		e.current = addUnits(e.current, cost)
	}
}

// Hold is HoldAt at time.Now.
func (l *Limiter) Hold(ctx context.Context, r Request) (Hold, limit.Decision, error) {
	return l.HoldAt(ctx, time.Now(), r)
}

// HoldAt sets the cost of r aside if it fits at now.
func (l *Limiter) HoldAt(ctx context.Context, now time.Time, r Request) (Hold, limit.Decision, error) {
	hs, ds, err := l.HoldManyAt(ctx, now, r)
	if err != nil || hs == nil {
		var d limit.Decision
		if err == nil {
			d = ds[0]
		}
		return Hold{}, d, err
	}
	return hs[0], ds[0], nil
}

// HoldMany is HoldManyAt at time.Now.
func (l *Limiter) HoldMany(ctx context.Context, requests ...Request) ([]Hold, []limit.Decision, error) {
	return l.HoldManyAt(ctx, time.Now(), requests...)
}

// HoldManyAt sets the costs of all requests aside if all fit at now, and none otherwise.
func (l *Limiter) HoldManyAt(_ context.Context, now time.Time, requests ...Request) ([]Hold, []limit.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ds, ok, err := l.decideLocked("hold", now, requests)
	if err != nil || !ok {
		return nil, ds, err
	}
	var hs []Hold
	for _, r := range requests {
		e := l.entryLocked(r)
		l.rollLocked(e, now, r)
		e.held += r.Cost
		hs = append(hs, Hold{&hold{limiter: l, request: r}})
	}
	return hs, ds, nil
}
