package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// AnyOptions are the options of AcquireAny. The zero value waits for all candidates alike.
type AnyOptions struct {
	// Patience is how long the call waits for the first candidate alone, before it takes any. It
	// waits so long even if the candidate is known to open later. Zero is not at all; a negative
	// value means the same.
	Patience time.Duration
}

// anyCall is a call of AcquireAny: a waiter for the caller, which stands in no line, and one for
// each candidate. The candidates are ordinary waiters, until one of them is served or all are
// refused.
type anyCall struct {
	whole      *waiter
	candidates []*waiter
	entered    int // how many of them were put into lines, or refused
	patience   time.Duration
	timer      *time.Timer // until the others enter; nil for none

	// With Config.Shared:
	plan     int64         // the serial of the plan that serves it
	restedBy int64         // that of the plan that looked at it last,
	rest     time.Duration // and when the first of its candidates may pass then
}

// AcquireAny is Acquire for a call that one of several models can serve. The requests are the
// candidates, in the order of preference. The first with room, and with nobody ahead in its line,
// is charged at once. If there is none, the call waits in the lines of all of them. While it waits
// it holds its places there and nothing else: no candidate is charged. It takes the first candidate
// that has room for it in its turn, and leaves the other lines in the same moment.
// Reservation.Model says which candidate it got. With AnyOptions.Patience it waits for the first
// candidate alone at the beginning, unless that can never serve it.
//
// It returns the errors of Acquire: ErrNeverFits only if no candidate can ever pass, the error of
// the deadline only if none can pass before it, ErrQueueFull if the lines of all others are full.
// The *LimitError is that of the candidate which opens first by RetryAfter, as in ReserveAny; where
// no time says when any does, that of the first. Without requests it returns nil.
//
// It is safe for concurrent use.
func (rl *RateLimiter) AcquireAny(ctx context.Context, opts AnyOptions, requests ...Request) (*Reservation, error) {
	by := rl.caller(ctx)
	r, err := rl.acquireAny(ctx, &by, opts, requests)
	if err != nil {
		rl.refused(ctx, &by, err, requests...)
	}
	return r, err
}

func (rl *RateLimiter) acquireAny(ctx context.Context, by *caller, opts AnyOptions, requests []Request) (*Reservation, error) {
	const op = "acquire any"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, req := range requests {
		if err := checkWait(ctx, op, req.PromptTokens, req.OutputTokens); err != nil {
			return nil, err
		}
	}
	if len(requests) == 0 {
		return nil, nil
	}
	a := &anyCall{patience: opts.Patience, candidates: make([]*waiter, len(requests))}
	for i := range requests {
		a.candidates[i] = &waiter{op: op, charges: true, requests: requests[i : i+1 : i+1], any: a}
	}
	a.whole = &waiter{op: op, charges: true, requests: requests, any: a}
	rs, err := rl.wait(ctx, by, a.whole)
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// enterAnyLocked serves a call at once by the first candidate that passes, or puts all candidates
// into their lines; while the call is patient, the first alone.
func (l *waitLines) enterAnyLocked(a *anyCall) {
	a.begin()
	l.goOnLocked(a, a.patience > 0)
	if a.whole.over || a.entered == len(a.candidates) {
		return
	}
	rl := l.rl // the timer must not read that before it has the lock
	a.timer = time.AfterFunc(a.patience, func() {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		if !a.whole.over {
			l.goOnLocked(a, false)
			l.settleLocked()
		}
	})
}

// begin tells the candidates what is known of the call.
func (a *anyCall) begin() {
	for _, w := range a.candidates {
		w.ended, w.deadline = a.whole.ended, a.whole.deadline
		w.asking = askedFor(a.whole, &w.requests[0])
		w.requests = w.named(w.requests)
	}
}

// goOnLocked serves a call by the first candidate that passes. Only where none does, those that are
// not refused stand in line; with patience, the first of them alone.
func (l *waitLines) goOnLocked(a *anyCall, patient bool) {
	for stands := false; a.entered < len(a.candidates) && !a.whole.over && !stands; {
		from := a.entered
		for waits := false; a.entered < len(a.candidates) && !a.whole.over && !(patient && waits); {
			w := a.candidates[a.entered]
			a.entered++
			b := l.rl.decideBatchLocked(w.requests)
			b.queuedLocked(w.class)
			waits = !l.resolveLocked(w, b)
		}
		for _, w := range a.candidates[from:a.entered] {
			if !w.over && !a.whole.over {
				l.enterLocked(w)
				a.whole.why, stands = cmp.Or(a.whole.why, w.why), stands || !w.over
			}
		}
	}
}

// askedFor returns the class and the flow of a candidate: its own, or those of the call.
func askedFor(whole *waiter, req *Request) asking {
	a := whole.asking
	if req.Class != "" {
		a.class = req.Class
	}
	if req.Flow != "" {
		a.flow = req.Flow
	}
	return a
}

// endCandidateLocked ends a call whose candidate was served, or all of whose candidates were
// refused.
func (l *waitLines) endCandidateLocked(w *waiter) {
	a := w.any
	if w == a.whole || a.whole.over {
		return
	}
	if w.err == nil {
		a.whole.reservations = w.reservations
		l.endAnyLocked(a, nil)
		return
	}
	switch {
	case l.rl.closed || a.isRefused():
		l.endAnyLocked(a, a.refusal())
	case a.timer != nil && a.entered < len(a.candidates):
		a.timer.Reset(0) // there is nothing left to be patient for
	}
}

// isRefused reports whether no candidate is left.
func (a *anyCall) isRefused() bool { return a.entered == len(a.candidates) && a.isRefusedSoFar() }

// isRefusedSoFar reports whether no candidate is left of those that have entered.
func (a *anyCall) isRefusedSoFar() bool {
	return !slices.ContainsFunc(a.candidates[:a.entered], func(w *waiter) bool { return !w.over })
}

// refusal returns the error of the candidates, all of which were refused: the one that is the least
// hopeless, of the first that opens first.
func (a *anyCall) refusal() (err error) {
	best := -1
	for _, w := range a.candidates {
		rank := 0
		switch {
		case !w.over:
			continue
		case errors.Is(w.err, ErrNeverFits):
		case errors.Is(w.err, ErrQueueFull):
			rank = 1
		case errors.Is(w.err, context.DeadlineExceeded), errors.Is(w.err, context.Canceled):
			rank = 2
		default:
			rank = 3 // the limiter is closed
		}
		if rank > best || rank == best && opensBefore(w.err, err) {
			best, err = rank, w.err
		}
	}
	return err
}

// endAnyLocked ends a call, and takes its candidates out of their lines, which are served then.
func (l *waitLines) endAnyLocked(a *anyCall, err error) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.whole.err, a.whole.over = err, true
	l.leaveAnyLocked(a)
	close(a.whole.done)
}

// leaveAnyLocked takes the candidates of a call out of their lines, and has these served.
func (l *waitLines) leaveAnyLocked(a *anyCall) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.whole.over = true
	for _, w := range a.candidates {
		if w.over {
			continue
		}
		l.vacated = append(l.vacated, w.otherLines(nil)...)
		l.leaveLinesLocked(w)
		w.over = true
	}
}

// preferredLocked returns the first candidate of a call that would pass now, and its decision;
// where none would, w, which waits for a pool. Then it says also when to look at w again, which is
// when the first of the candidates may pass that pools keep: they share the head of a pool's line.
func (l *waitLines) preferredLocked(
	w *waiter, b *batch, waits bool, pending *[]*slots,
) (first *waiter, of *batch, keeps bool, wait time.Duration) {
	wait = b.wait
	for _, c := range w.any.candidates {
		switch {
		case c == w && !waits:
			return w, b, false, wait
		case c == w || c.over || len(c.places) == 0 || !c.isNext(nil):
			continue
		}
		decided := l.rl.decideBatchLocked(c.requests)
		passes := l.standInPoolsLocked(c, decided, nil, pending)
		switch {
		case passes && decided.Allowed:
			return c, decided, false, 0
		case !passes:
			wait = sooner(wait, decided.wait)
		}
	}
	return w, b, waits, wait
}

// sooner returns the smaller one of two waits, of which zero is for an event.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// restsLocked returns when to look again at a waiter that a plan lets rest, as preferredLocked
// does.
func (w *waiter) restsLocked(plan int64, wait time.Duration) time.Duration {
	a := w.any
	if a == nil || !w.hasPools() {
		return wait
	}
	if a.restedBy != plan {
		a.restedBy, a.rest = plan, 0
	}
	a.rest = sooner(a.rest, wait)
	return a.rest
}

// ReserveAny is Reserve for a call that one of several models can serve: it charges the first of
// the candidates that passes. Reservation.Model says which. If none passes, it returns nil and the
// decision on the one that opens first, by the smallest RetryAfter; where no time says when any
// does, on the first. Without requests it returns nil and a Decision that allows.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveAny(requests ...Request) (r *Reservation, d Decision) {
	if len(requests) == 0 {
		return nil, Decision{Allowed: true, Code: DecisionAllowed, Reason: "within the quota"}
	}
	by := caller{ctx: background, tentative: true}
	for i := range requests {
		var decided Decision
		c := requests[i].cost()
		rl.askFor(&by, background, requests[i:i+1])
		if r, _ = rl.reserveOne(background, &by, &decided, requests[i].Model, &c); r != nil {
			return r, decided
		}
		if i == 0 || decided.opensBefore(&d) {
			d = decided
		}
	}
	by.tentative = false
	rl.mu.Lock()
	e := rl.reservedLocked(&by, nil, &d, requests)
	rl.mu.Unlock()
	rl.teller.tell(e)
	return nil, d
}

// opensBefore reports whether what was refused with an error opens before that of another error.
func opensBefore(err, other error) bool {
	var e, o *LimitError
	return errors.As(err, &e) && errors.As(other, &o) && e.Decision.opensBefore(&o.Decision)
}

// opensBefore reports whether a denial ends before another one, as far as time tells. One that
// never ends is after all.
func (d *Decision) opensBefore(other *Decision) bool {
	switch {
	case d.RetryAfter > 0 && other.RetryAfter > 0:
		return d.RetryAfter < other.RetryAfter
	case d.RetryAfter > 0:
		return true
	}
	return other.RetryAfter == 0 && other.Never && !d.Never
}
