package lives

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// The ways to wait.
const (
	acquire     = "acquire"
	acquireAll  = "acquire all"
	acquireAny  = "acquire any"
	forCapacity = "wait for capacity"
)

// wait is a call that waits, at each of the limiters.
type wait struct {
	how      string
	reqs     []ratelimit.Request
	patience time.Duration
	came     time.Time
	deadline time.Time // zero for none
	gone     bool      // its context was cancelled
	stops    []context.CancelFunc
	ends     []*end
}

// end is how a wait ended at one limiter.
type end struct {
	mu   sync.Mutex
	over bool
	at   time.Time
	rs   []*ratelimit.Reservation
	err  error
}

func (w *wait) String() string {
	return fmt.Sprintf("%s %s until %s", w.how, render(w.reqs), render(w.deadline))
}

// isOver returns whether a wait has ended at a limiter.
func (w *wait) isOver(i int) bool {
	w.ends[i].mu.Lock()
	defer w.ends[i].mu.Unlock()
	return w.ends[i].over
}

// leave ends a wait.
func (w *wait) leave() {
	for _, stop := range w.stops {
		stop()
	}
}

// call makes the call at one limiter, and waits.
func (w *wait) call(ctx context.Context, rl *ratelimit.RateLimiter, e *end) {
	var rs []*ratelimit.Reservation
	var r *ratelimit.Reservation
	var err error
	switch req := w.reqs[0]; w.how {
	case acquire:
		ctx = ratelimit.WithFlow(ratelimit.WithClass(ctx, req.Class), req.Flow)
		r, err = rl.Acquire(ctx, req.Model, req.PromptTokens, req.OutputTokens)
	case acquireAll:
		rs, err = rl.AcquireAll(ctx, w.reqs...)
	case acquireAny:
		r, err = rl.AcquireAny(ctx, ratelimit.AnyOptions{Patience: w.patience}, w.reqs...)
	default:
		ctx = ratelimit.WithFlow(ratelimit.WithClass(ctx, req.Class), req.Flow)
		err = rl.WaitForCapacity(ctx, req.Model, req.PromptTokens)
	}
	if r != nil {
		rs = append(rs, r)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.at, e.rs, e.err = true, time.Now(), rs, err
}

// comeOrGo lets a call come that may have to wait, or one go that does.
func (l *life) comeOrGo() {
	if n := len(l.waits); n > 0 && oneIn(l.random, 4) {
		w := l.waits[l.random.IntN(n)]
		l.note("leaves: %v", w)
		w.gone = true
		w.leave()
		return
	}
	w := &wait{how: pick(l.random, acquire, acquire, acquire, acquireAll, acquireAny, forCapacity), came: l.now}
	switch w.how {
	case acquireAll:
		for range 1 + l.random.IntN(3) {
			w.reqs = append(w.reqs, l.drawRequest())
		}
	case acquireAny:
		w.reqs = l.drawCandidates()
		w.patience = pick(l.random, 0, 0, 0, 5*time.Second, time.Minute)
	default:
		w.reqs = append(w.reqs, l.drawRequest())
	}
	if w.how == forCapacity {
		w.reqs[0].OutputTokens = 0
	}
	limit := pick(l.random, 0, 0, 0, 10*time.Second, time.Minute, 3*time.Minute, time.Hour)
	if limit > 0 {
		// Nothing else happens at that moment, not even another deadline: no order of two things
		// matters.
		w.deadline = l.now.Add(limit + 333*time.Microsecond + time.Duration(l.step))
	}
	l.note("comes: %v", w)
	for _, h := range l.houses {
		ctx, stop := context.WithCancel(l.ctx.Context())
		if limit > 0 {
			ctx, stop = context.WithDeadline(l.ctx.Context(), w.deadline)
		}
		e := new(end)
		w.stops, w.ends = append(w.stops, stop), append(w.ends, e)
		go w.call(ctx, h.rl, e)
		synctest.Wait()
	}
	l.waits = append(l.waits, w)
}

// allLeave ends all waits. Who waits at a store looks at it every 20 ms, which would take most of
// the time of a life.
func (l *life) allLeave() {
	for len(l.waits) > 0 { // one after the other, because who leaves may have others served
		w := l.waits[0]
		l.note("leaves: %v", w)
		w.gone = true
		w.leave()
		l.catchUp()
	}
}

// catchUp takes into the books what has happened since, where calls wait.
func (l *life) catchUp() {
	if len(l.waits) > 0 {
		synctest.Wait()
		l.settled()
	}
}

// settled takes into the books what happened until now, one after the other: calls that expired and
// waits that ended.
func (l *life) settled() {
	now := time.Now()
	l.sameEnds()
	for {
		at, happen := l.nextHappening(now)
		if happen == nil {
			break
		}
		if at.After(l.now) {
			l.checkWaiting(at)
			l.now = at
		}
		happen()
	}
	l.checkWaiting(now)
	l.now = now
	l.checkWaiting(now)
}

// nextHappening returns what happened first, and when; nil for nothing until now.
func (l *life) nextHappening(now time.Time) (first time.Time, happen func()) {
	for _, c := range l.calls {
		if at := c.admitted.Add(l.cfg.HoldTTL); l.cfg.HoldTTL > 0 && !c.settled && !at.After(now) && (happen == nil || at.Before(first)) {
			first, happen = at, func() { l.finish(c, ratelimit.EventExpired, ratelimit.Usage{}, 0) }
		}
	}
	expires := happen != nil
	for _, w := range l.waits {
		if !w.isOver(0) {
			continue
		}
		// Who takes nothing may have passed before another one of the same moment took it.
		at, takes := w.ends[0].at, w.how != forCapacity
		if happen == nil || at.Before(first) || at.Equal(first) && !takes && !expires {
			first, happen, expires = w.ends[0].at, func() { l.ended(w) }, false
		}
	}
	return first, happen
}

// ended takes the end of a wait into the books.
func (l *life) ended(w *wait) {
	w.leave()
	l.waits = slices.DeleteFunc(l.waits, func(other *wait) bool { return other == w })
	e := w.ends[0]
	if e.err != nil {
		l.raced = l.raced || e.at.Equal(l.refusedAt)
		l.refusedAt = e.at
		l.note("%v after %v: %v", w, l.now.Sub(w.came), e.err)
		l.expectRefused(ratelimit.Decision{}, w.reqs)
		l.checkRefused(w, e.err)
		return
	}
	l.note("%v after %v: served", w, l.now.Sub(w.came))
	l.met["served, "+w.how]++
	if l.now.After(w.came) {
		l.met["served after a wait"]++
	}
	served := w.reqs
	if w.how == acquireAny {
		at := slices.IndexFunc(w.reqs, func(req ratelimit.Request) bool { return req.Model == e.rs[0].Model() })
		served = w.reqs[at : at+1]
	}
	if l.sees(served...) && !together(l.parts(served)).allowed {
		for _, p := range l.parts(served) {
			l.note("%s asks %+v of %s: %+v", p.model, p.demand, render(p.account.stats(l.now)), p.verdict)
		}
		l.fail("%v was served beyond the quota", w)
	}
	if w.how == forCapacity {
		return
	}
	for n, req := range served {
		reals := make([]*ratelimit.Reservation, len(l.houses))
		for i := range l.houses {
			reals[i] = w.ends[i].rs[n]
		}
		l.book(reals, req)
	}
}

// checkRefused looks whether a wait was refused rightly.
func (l *life) checkRefused(w *wait, err error) {
	negative := slices.ContainsFunc(w.reqs, func(req ratelimit.Request) bool { return min(req.PromptTokens, req.OutputTokens) < 0 })
	permitted := !slices.ContainsFunc(w.reqs, func(req ratelimit.Request) bool { return !l.permits(req.Model) })
	switch seen := l.sees(w.reqs...) && w.how != acquireAny; {
	case errors.Is(err, context.Canceled) && w.gone,
		errors.Is(err, ratelimit.ErrInvalidTokens) && negative:
	case errors.Is(err, ratelimit.ErrNeverFits):
		if seen && permitted && !together(l.parts(w.reqs)).never {
			l.fail("%v fits, and was refused: %v", w, err)
		}
	case errors.Is(err, context.DeadlineExceeded) && !w.deadline.IsZero():
		if l.now.Before(w.deadline) && seen && permitted && l.passesFreed(w) {
			l.fail("%v could pass in time, and was refused: %v", w, err)
		}
	case errors.Is(err, ratelimit.ErrQueueFull):
		if most := max(l.cfg.MaxQueue, l.cfg.Classes["light"].MaxQueue); most == 0 || len(l.waits) < min(most, 2) {
			l.fail("%v: nobody waits, and yet: %v", w, err)
		}
	default:
		l.fail("%v ends with %v", w, err)
	}
	l.met["refused a wait"]++
}

// passesFreed reports whether a wait passes at its deadline if all open calls give back what they
// have charged: those that have arrived, the tokens.
func (l *life) passesFreed(w *wait) bool {
	for _, p := range l.parts(w.reqs) {
		a := *p.account
		a.charges, a.inFlight = slices.Clone(a.charges), 0
		if a.day != nil {
			day := *a.day
			a.day = &day
		}
		var most money.Amount
		tokens := 0
		for _, c := range l.calls {
			for _, b := range c.bookings {
				if b.account == p.account && !c.settled && !b.forgotten() {
					a.remove(b.charge)
					requests := 1
					if c.arrived {
						requests = 0
						a.charges = append(a.charges, &charge{b.at, 1, 0, 0})
					}
					if b.inDay(l.now) {
						a.day.requests, a.day.tokens = a.day.requests-requests, a.day.tokens-b.input-b.output
					}
				}
				if b.account == p.account && !c.settled {
					most += b.most
					tokens += b.input + b.output
				}
			}
		}
		for _, spent := range []**period{&a.spentDay, &a.spentMonth} {
			if *spent != nil {
				*spent = &period{end: (*spent).end, amount: max((*spent).amount-most, 0)}
			}
		}
		a.monthTokens = max(a.monthTokens-tokens, 0)
		a.paid = append(slices.Clone(a.paid), &payment{w.deadline, -most})
		if v := a.judge(l.now, p.demand); !v.allowed && l.now.Add(v.wait).After(w.deadline) || v.never {
			return false
		}
	}
	return true
}

// checkWaiting looks whether somebody waits who is the first in all lines, and could have passed
// before a time.
func (l *life) checkWaiting(until time.Time) {
	for n, w := range l.waits {
		if w.isOver(0) || w.gone || w.how == acquireAny || !l.sees(w.reqs...) || !l.isFirst(n) {
			continue
		}
		if !w.deadline.IsZero() && w.deadline.Before(l.now) {
			l.fail("%v still waits", w)
		}
		v := together(l.parts(w.reqs))
		at := l.now.Add(v.wait)
		switch {
		case slices.ContainsFunc(w.reqs, func(req ratelimit.Request) bool { return !l.permits(req.Model) }):
		case v.allowed, v.never:
			l.fail("%v waits, and %+v", w, v)
		case !v.slots && at.Before(until) && (w.deadline.IsZero() || at.Before(w.deadline)):
			l.fail("%v was to be served at %v, and has not been at %v", w, at.UTC(), until.UTC())
		}
	}
}

// isFirst reports whether nobody who came before waits for a model or a pool of the n-th waiter;
// where classes and flows wait, whether nobody else waits for one at all.
func (l *life) isFirst(n int) bool {
	accounts := l.accountsOfAll(l.waits[n])
	for i, other := range l.waits {
		if i == n || i > n && !l.fair {
			continue
		}
		if slices.ContainsFunc(l.accountsOfAll(other), func(a *account) bool { return slices.Contains(accounts, a) }) {
			return false
		}
	}
	return true
}

func (l *life) accountsOfAll(w *wait) (accounts []*account) {
	for _, req := range w.reqs {
		accounts = append(accounts, l.accountsOf(req.Model)...)
	}
	return accounts
}

// sameEnds compares which waits are over at the limiters, and how they ended.
func (l *life) sameEnds() {
	for _, w := range l.waits {
		for i := 1; i < len(l.houses); i++ {
			a, b := w.isOver(0), w.isOver(i)
			if a != b {
				l.fail("%v is over: %s says %t, %s %t", w, l.houses[0].kind, a, l.houses[i].kind, b)
			}
			if !a {
				continue
			}
			type told struct {
				At  time.Time
				Err error
			}
			if a, b := render(told{w.ends[0].at, w.ends[0].err}), render(told{w.ends[i].at, w.ends[i].err}); a != b {
				l.fail("%v ended:\n%s: %s\n%s: %s", w, l.houses[0].kind, a, l.houses[i].kind, b)
			}
		}
	}
}
