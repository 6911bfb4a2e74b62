package ratelimit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
)

// The pauses between two looks at the log, while a request waits, grow from the first to the
// last. A look at a log that has not changed takes microseconds.
const (
	firstLook = time.Millisecond
	lastLook  = 20 * time.Millisecond
)

// lines is what a ledger notes of the waiters of its own process. Their places are in waitLines.
type lines struct {
	evicted  []*waiter // have to stand in line again
	served   []*waiter // may go on once the step is written
	watching bool      // a goroutine looks for changes

	// stirs counts the changes that may let a waiter at the head of its lines pass, and
	// reviews those that may refuse one wherever it stands: of quotas and cooldowns.
	stirs, servedStirs     int64
	reviews, servedReviews int64
}

// confirm notes how far a plan has served the lines.
func (l *lines) confirm(p *plan) {
	l.servedStirs = max(l.servedStirs, p.stirs)
	l.servedReviews = max(l.servedReviews, p.reviews)
	for _, g := range p.rl.lines.reviews[:p.reviewed] {
		g.reviewed, g.stale = false, false
	}
	p.rl.lines.reviews = slices.Clone(p.rl.lines.reviews[p.reviewed:])
}

// areStirred reports whether something has changed for the waiters since they were served.
func (l *lines) areStirred(rl *RateLimiter) bool {
	return l.stirs != l.servedStirs || l.reviews != l.servedReviews || len(l.evicted)+len(rl.lines.reviews) > 0
}

// forget removes a waiter from the evicted ones.
func (l *lines) forget(w *waiter) {
	l.evicted = slices.DeleteFunc(l.evicted, func(other *waiter) bool { return other == w })
}

// due plans the first of these that there is anything to plan of: putting evicted waiters back in
// line, settling garbage-collected reservations, and serving waiters.
func (p *plan) due() {
	if p.s.closed.Load() {
		return
	}
	for _, w := range p.s.lines.evicted {
		p.wait(w, p.rl.costsRLocked(w.requests))
	}
	if p.empty() {
		p.settleGarbage()
	}
	if p.empty() {
		p.serve()
	}
}

// isAnythingDue reports whether plan.due would plan anything, after a plan was carried out.
func (s *ledger) isAnythingDue(after *plan) bool {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	s.reuseLocked(after)
	if !s.lines.areStirred(s.rl) && !s.garbage.wanted {
		return false
	}
	p := s.newPlanLocked()
	defer s.reuseLocked(p)
	p.due()
	s.lastN = p.base
	s.own.clear()
	if p.empty() {
		s.lines.confirm(p)
		s.garbage.wanted = false
		return false
	}
	return true
}

// waiters returns the waiters of this limiter in the order of their arrival.
func (p *plan) waiters() []*waiter {
	waiters := slices.Clone(p.s.lines.evicted)
	waiters = slices.AppendSeq(waiters, maps.Values(p.s.peers.Waiters(p.s.id)))
	slices.SortFunc(waiters, func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
	return waiters
}

// serve plans to serve or refuse the waiters for which something may have changed. Of two
// that stand in the same line it decides on the first alone, so that none of its decisions
// depends on another.
func (p *plan) serve() {
	l, rl := &p.s.lines, p.rl
	all := l.reviews != l.servedReviews
	if l.stirs == l.servedStirs && !all && len(rl.lines.reviews) == 0 {
		return
	}
	review := all || len(rl.lines.reviews) > 0
	if review {
		for g := range rl.lines.occupied {
			g.headroom.Forget() // which boundLocked works out again
		}
	}
	lines, pooled := rl.linesLocked(), false
	lines.yieldAllLocked()
	lines.wakeForPoolsLocked()
	for _, w := range p.waiters() {
		if w.any != nil && w.any.plan == p.serial {
			continue
		}
		first := lines.isNextLocked(w) && w.leadsPools()
		if first && (len(p.places) > 0 || pooled && w.hasPools()) {
			return // places are few, pools have several lines, and the next step knows what is left
		}
		if ended := rl.linesLocked().hasEndedLocked(w); first && ended != nil {
			// It is about to leave. What it would get for a moment could keep others out.
			p.end(w, nil, ended)
			continue
		}
		if !first && !all && (!review || w.deadline.IsZero()) {
			continue
		}
		b := rl.decideBatchLocked(w.requests)
		switch over := first && p.resolve(w, b) || !first && p.refuse(w, b); {
		case over:
			pooled = pooled || w.hasPools()
		case review:
			rl.linesLocked().boundLocked(w, b)
			fallthrough
		default:
			if first {
				lines.scarceLocked(w, b)
				w.sleepLocked(b, w.restsLocked(p.serial, b.rest()))
			}
		}
	}
	p.stirs, p.reviews, p.reviewed = l.stirs, l.reviews, len(rl.lines.reviews)
}

// resolve serves a waiter whose requests pass, or refuses one that waits in vain, and
// reports whether it is either.
func (p *plan) resolve(w *waiter, b *batch) bool {
	err, over := p.rl.linesLocked().verdictLocked(w, b)
	if !over {
		return false
	}
	var rs Reservations
	if err == nil && w.charges {
		rs = p.chargeAll(w.requests, b)
	}
	if err == nil && len(w.places) > 0 {
		p.turns(w, b)
	} else if err == nil {
		p.passes(w.class, b.costs)
	}
	p.end(w, rs, err)
	return true
}

// refuse refuses a waiter that waits in vain, and reports whether it does.
func (p *plan) refuse(w *waiter, b *batch) bool {
	err := p.rl.linesLocked().refusalLocked(w, b)
	if err != nil {
		p.end(w, nil, err)
	}
	return err != nil
}

// end plans the end of a wait, with reservations or an error.
func (p *plan) end(w *waiter, rs Reservations, err error) {
	if w.any != nil {
		p.endCandidate(w, rs, err)
		return
	}
	if w.ticket != 0 {
		p.addNow(&sharedlog.Event{Kind: sharedlog.Leave, Ref: w.ticket})
	}
	p.then(func() {
		w.reservations, w.err, w.over, w.ticket = rs, err, true, 0
		p.s.lines.forget(w)
		p.s.lines.served = append(p.s.lines.served, w)
	})
}

// wait plans to put a waiter at the end of all its lines.
func (p *plan) wait(w *waiter, b *batch) {
	requests := make([]sharedlog.Request, len(w.requests))
	for i, req := range w.requests {
		req.Model = b.costs[b.of[i]].name
		requests[i] = sharedlog.Request{
			Model: req.Model, PromptTokens: req.PromptTokens, OutputTokens: req.OutputTokens, Class: req.Class, Flow: req.Flow,
		}
	}
	e := p.addNow(&sharedlog.Event{Kind: sharedlog.Wait, Ref: p.turnOf(w, b), Text: sharedlog.RequestsText(requests)})
	p.s.own.waits[e.N] = w
}

// close plans to refuse all waiters, and to end what this limiter has open.
func (p *plan) close() {
	for _, w := range p.waiters() {
		p.end(w, nil, w.closed())
	}
	p.tellAll()
	p.addNow(&sharedlog.Event{Kind: sharedlog.Gone, Ref: p.s.id})
	p.then(func() { p.s.closed.Store(true) })
}

// standIn puts a waiter in its lines.
func (f effect) standIn(e *sharedlog.Event) {
	// No process is number 0, whose waiter would be taken for one of this limiter.
	if e.Process == 0 || f.s.peers.HasWaiter(e.Process, e.N) {
		return
	}
	w := &waiter{process: e.Process, since: e.At, turn: e.Ref}
	if own := f.s.own.waits[e.N]; own != nil && e.Process == f.s.id {
		w = own
		w.ticket, w.unwritten, w.turn = e.N, e.Seq == 0, e.Ref
		f.s.lines.forget(w)
	} else {
		requests, err := sharedlog.ParseRequests(e.Text)
		if err != nil || len(requests) == 0 {
			return
		}
		for _, req := range requests {
			w.requests = append(w.requests, Request{
				Model: req.Model, PromptTokens: req.PromptTokens, OutputTokens: req.OutputTokens, Class: req.Class, Flow: req.Flow,
			})
		}
		w.asking = askingOf(background, w.requests)
	}
	f.rl.lines.flows = f.rl.lines.flows || w.flow != ""
	f.rl.lines.arrivals++
	w.seq = f.rl.lines.arrivals
	l := f.rl.linesLocked()
	l.queueLocked(w, f.rl.costsRLocked(w.requests))
	if len(f.rl.classes) > 0 {
		l.yieldsLocked(w, f.rl.decideBatchLocked(w.requests))
	}
	f.s.peers.AddWaiter(e.Process, e.N, w)
	if w.process == 0 {
		f.s.lease.Keep()
		f.s.watchLocked()
	}
}

// evict takes a process out of all lines. If it is this one, its waiters have to stand
// in line again: the others have not heard of it for long. Those whose places are yet to be written
// stay, because the log has them behind the eviction.
func (f effect) evict(process int64) {
	for _, n := range slices.Sorted(maps.Keys(f.s.peers.Waiters(process))) {
		if f.isUnwritten(process, n) {
			continue
		}
		w := f.s.peers.RemoveWaiter(process, n)
		f.rl.linesLocked().leaveLinesLocked(w)
		if w.process == 0 && !f.s.closed.Load() {
			w.ticket = 0
			if f.s.own.waits[n] != w { // or memory is made anew, which finds it
				f.s.lines.evicted = append(f.s.lines.evicted, w)
			}
		}
	}
}

// isUnwritten reports whether the place of a waiter is not in the log.
func (f effect) isUnwritten(process, n int64) bool {
	if w := f.s.peers.Waiters(process)[n]; process != f.s.id || !w.unwritten {
		return false
	}
	return slices.ContainsFunc(f.s.outbox.Events(), func(e *sharedlog.Event) bool {
		return e.Kind == sharedlog.Wait && e.N == n
	})
}

// serveLaterLocked has the lines served by the next step. It reports whether the limiter is
// shared; if not, it does nothing.
func (s *ledger) serveLaterLocked() (shared bool) {
	if s == nil {
		return false
	}
	s.lines.stirs++
	return true
}

// reviewLaterLocked is serveLaterLocked after a change that may refuse a waiter wherever it
// stands.
func (s *ledger) reviewLaterLocked() (shared bool) {
	if s == nil {
		return false
	}
	s.lines.reviews++
	return true
}

// serve makes a step for the sake of the lines.
func (s *ledger) serve() (shared bool) {
	if s == nil {
		return false
	}
	s.rl.mu.Lock()
	s.lines.stirs++
	s.rl.mu.Unlock()
	return s.update(combine.AppendedApart, nothing)
}

// enter is plan.enter.
func (s *ledger) enter(ctx context.Context, w *waiter) (shared bool, err error) {
	if s == nil {
		return false, nil
	}
	return true, s.do(ctx, combine.Apart, func(p *plan) { p.enter(w) })
}

// leave is plan.leave.
func (s *ledger) leave(w *waiter) (shared bool) {
	if s == nil {
		return false
	}
	s.do(background, combine.Apart, func(p *plan) { p.leave(w) })
	return true
}

// watchLocked has a goroutine look for changes of others, as long as this limiter has
// waiters.
func (s *ledger) watchLocked() {
	if s.lines.watching || s.closed.Load() {
		return
	}
	s.lines.watching = true
	s.goroutines.Go(s.watch)
}

func (s *ledger) watch() {
	changed := s.log.Changed()
	first, last := firstLook, lastLook
	if changed != nil {
		first, last = time.Duration(peersEvery), time.Duration(peersEvery) // for processes that die
	}
	pause := first
	for {
		select {
		case <-changed:
		case <-time.After(pause):
		}
		s.fresh()
		s.rl.mu.Lock()
		stirred := s.lines.areStirred(s.rl)
		waits := len(s.lines.evicted)+len(s.peers.Waiters(s.id)) > 0
		if s.lines.watching = waits && !s.closed.Load(); !s.lines.watching {
			s.rl.mu.Unlock()
			return
		}
		s.rl.mu.Unlock()
		if stirred {
			s.do(background, combine.AppendedApart, nothing) // serves them
			pause = first
			continue
		}
		pause = min(2*pause, last)
	}
}
