package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fairline"
	"dappco.re/go/core/go-ratelimit/internal/headroom"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// waiter is a call that waits, in the lines of all the models that it asks for.
type waiter struct {
	op       string          // for errors
	seq      int             // the order of arrival
	since    int64           // the instant of it
	ended    <-chan struct{} // closed when its context ends
	requests []Request
	charges  bool      // makes reservations
	deadline time.Time // zero for none
	asking
	any *anyCall // whose candidate it is, or which it stands for; nil for a call that has none

	// With Config.Shared:
	process int64 // the process that waits, if it is another one
	ticket  int64 // the event that says that it waits; 0 if there is none
	// unwritten says that the log did not have that event when memory learned of it.
	unwritten bool
	turn      int64 // among the flows of its class, as all processes know it; 0 for a private limiter

	// While it waits for places for its models:
	needs   int   // how many,
	placeAt int64 // the instant at which there were to be as many, when that was last looked at,
	rank    int   // and where in forPlace it is, counted from 1; 0 if it is not

	why    *Decision // why it stands in line, for Config.Events
	keptAt int64     // the instant since which reserves keep it out; 0 for not: see patienceLocked

	places       []place
	reservations Reservations  // when it was served
	err          error         // when it was refused
	over         bool          // it was either
	done         chan struct{} // closed when it was served or refused

	yields  bool  // to those of other classes: see yieldsLocked
	tries   int   // how often it was tried
	triedAt int64 // since this waitLines.progress
}

// place is the place of a waiter in the line of one model.
type place struct {
	slots *slots
	entry *fairline.Entry[*waiter]
	slack *headroom.Slack // nil for a waiter without a deadline
	pool  bool            // it is the line of a pool
	held  bool            // it was awake there, where the waiter passes
	part  int64           // of what is scarce there, for a waiter that was served: see fairline.Unit
}

// wait serves a waiter in its turn, and returns its error when it is refused or its context ends.
func (rl *RateLimiter) wait(ctx context.Context, by *caller, w *waiter) (Reservations, error) {
	began := rl.teller.now()
	w.ended = ctx.Done()
	w.deadline, _ = ctx.Deadline()
	w.done = make(chan struct{})
	w.asking = askingOf(ctx, w.requests)
	w.requests, by.asking = w.named(w.requests), w.asking
	if err := rl.enter(ctx, w); err != nil {
		return nil, err
	}
	rl.teller.queued(by, w)
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	if by.queued {
		by.waited = time.Since(began)
	}
	if err := ctx.Err(); err != nil {
		rl.leave(w)
		return nil, err
	}
	if w.err == nil {
		rl.teller.served(by, w)
	}
	w.reservations.watch()
	return w.reservations, w.err
}

func (rl *RateLimiter) enter(ctx context.Context, w *waiter) error {
	if shared, err := rl.ledger.enter(ctx, w); shared {
		return err
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	l := rl.linesLocked()
	if w.any != nil {
		l.enterAnyLocked(w.any)
	} else {
		l.enterLocked(w)
	}
	if l.settleLocked(); w.over {
		w.why = nil // it has stood in line for no time
	}
	return nil
}

// enterLocked serves or refuses a waiter at once, or puts it into all its lines in one step: so
// of two in the same lines, one is ahead in all.
func (l *waitLines) enterLocked(w *waiter) {
	b := l.rl.decideBatchLocked(w.requests)
	queued := b.queuedLocked(w.class)
	if l.resolveLocked(w, b) {
		return
	}
	if l.isLineFull(w, b) {
		l.endWaitLocked(w, w.limited(b, ErrQueueFull))
		return
	}
	l.arrivals++
	w.seq, w.since = l.arrivals, l.rl.clock.Sync()
	l.flows = l.flows || w.flow != ""
	w.stoodLocked(l.rl.teller, b)
	l.queueLocked(w, b)
	l.boundLocked(w, b)
	l.scarceLocked(w, b)
	l.yieldsLocked(w, b)
	switch {
	case w.hasPools() || queued && (l.mayLeadLocked(w) || l.rl.hasReserve(w.class)):
		lines := w.otherLines(nil)
		if len(l.rl.classes) == 0 && !l.flows {
			lines = lines[:1]
		}
		for _, g := range lines {
			l.serveLineLocked(g)
		}
	case !queued:
		l.restLocked(w, b)
	}
}

// isLineFull reports whether as many wait for one of the models as may, which the batch then
// names.
func (l *waitLines) isLineFull(w *waiter, b *batch) bool {
	class := l.rl.fairClassRLocked(w.class).Name
	most := l.rl.classes[class].MaxQueue
	for i := range b.costs {
		g := b.costs[i].view.slots
		if b.costs[i].pool != nil {
			continue
		}
		if l.maxQueue > 0 && g.waiting() >= l.maxQueue || most > 0 && g != nil && g.line.InClass(class) >= most {
			b.queue()
			b.Model = b.costs[i].model
			return true
		}
	}
	return false
}

// queueLocked puts a waiter at the end of its flow and class in all its lines.
func (l *waitLines) queueLocked(w *waiter, b *batch) {
	for i := range b.costs {
		g := l.slotsLocked(b.costs[i].name)
		p := place{slots: g, pool: b.costs[i].isPool()}
		if p.entry = g.line.PushAsleep(w, l.rl.fairClassRLocked(w.class), w.flow, w.turn); !p.pool {
			g.line.Wake(p.entry)
		}
		w.places = append(w.places, p)
		if l.occupied == nil {
			l.occupied = make(map[*slots]bool)
		}
		l.occupied[g] = true
		l.waiting++
	}
}

// resolveLocked serves a waiter whose turn it is, or refuses one that waits in
// vain, and reports whether it was either.
func (l *waitLines) resolveLocked(w *waiter, b *batch) bool {
	err, over := l.verdictLocked(w, b)
	if !over {
		return false
	}
	if err == nil {
		l.partsLocked(w, b)
		if w.charges {
			w.reservations = l.rl.chargeAllLocked(w.requests, b)
		}
	}
	l.endWaitLocked(w, err)
	return true
}

// verdictLocked reports whether the wait of a waiter is over by a decision on its requests:
// without an error because they pass, or with one because it waits in vain.
func (l *waitLines) verdictLocked(w *waiter, b *batch) (err error, over bool) {
	switch {
	case l.rl.closed && len(w.places) > 0:
		return w.closed(), true // what is served in a shutdown would begin in it
	case b.Allowed:
		return nil, true
	}
	err = l.refusalLocked(w, b)
	return err, err != nil
}

// refuseLocked refuses a waiter that waits in vain, and reports whether it did.
func (l *waitLines) refuseLocked(w *waiter, b *batch) bool {
	err := l.refusalLocked(w, b)
	if err != nil {
		l.endWaitLocked(w, err)
	}
	return err != nil
}

// refusalLocked returns the error of a waiter that waits in vain; nil for another.
func (l *waitLines) refusalLocked(w *waiter, b *batch) error {
	switch {
	case b.Never && b.Code != DecisionClosed:
		return w.limited(b, ErrNeverFits)
	case l.rl.closed:
		return w.closed()
	case l.isLateLocked(w, b):
		return w.limited(b, context.DeadlineExceeded)
	}
	return nil
}

// closed returns the error of one that waits when the limiter is closed.
func (w *waiter) closed() error { return fmt.Errorf("%s: %w", w.op, ErrClosed) }

// endAllLocked refuses all waiters of this limiter, because it is closed.
func (l *waitLines) endAllLocked() {
	if l.rl.ledger.serveLaterLocked() {
		return
	}
	for _, w := range l.waitersLocked() {
		l.endWaitLocked(w, w.closed())
	}
}

// waitersLocked returns all waiters, each once, in the order of their arrival.
func (l *waitLines) waitersLocked() (waiters []*waiter) {
	for g := range l.occupied {
		for e := range g.line.All() {
			if w := e.Value; w.places[0].entry == e {
				waiters = append(waiters, w)
			}
		}
	}
	slices.SortFunc(waiters, func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
	return waiters
}

// endWaitLocked ends the wait, with an error or without.
func (l *waitLines) endWaitLocked(w *waiter, err error) {
	l.progress++
	l.leaveLinesLocked(w)
	if w.err, w.over = err, true; w.any != nil {
		l.endCandidateLocked(w)
		return
	}
	close(w.done)
}

// leaveLinesLocked takes a waiter out of its lines.
func (l *waitLines) leaveLinesLocked(w *waiter) {
	l.forPlace.forget(w)
	for _, p := range w.places {
		g := p.slots
		if p.part > 0 {
			g.line.Serve(p.entry, p.part)
		} else {
			g.line.Remove(p.entry)
		}
		if l.rl.reserves != nil {
			g.seenLocked(w.class)
		}
		l.waiting--
		if g.line.Len() == 0 {
			g.headroom, g.stale = headroom.Line{}, false
			delete(l.occupied, g)
			if g.timer != nil {
				g.timer.Stop()
				g.firesAt = 0
			}
			l.rl.unlistedLocked().easeLocked(g.name)
		}
		g.closeLocked()
	}
	places := w.places
	w.places = nil
	for i := range places {
		if !places[i].pool && !l.shared && l.rl.pools.any() {
			places[i].slots.wakeNextLocked(places)
		}
	}
}

// leave ends the wait of a waiter whose context has ended. If it was served in the same moment,
// it gives that back. The next in line moves up at once.
func (rl *RateLimiter) leave(w *waiter) {
	if !rl.ledger.leave(w) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		rl.linesLocked().leaveLocked(w)
	}
}

func (l *waitLines) leaveLocked(w *waiter) {
	if w.over {
		w.reservations.cancelLocked(l.rl)
		return
	}
	if w.any != nil {
		l.leaveAnyLocked(w.any)
		l.settleLocked()
		return
	}
	places := w.places
	l.leaveLinesLocked(w)
	for _, p := range places {
		l.serveLocked(p.slots)
	}
}

// serveLocked serves the head of a line, as far as there is room, and the waiters for whom this
// makes a place.
func (l *waitLines) serveLocked(g *slots) {
	if l.rl.ledger.serveLaterLocked() {
		return
	}
	l.serveLineLocked(g)
	l.settleLocked()
}

// restLocked schedules the next review of a waiter at the head of its lines.
func (l *waitLines) restLocked(w *waiter, b *batch) {
	if b.lacking > 0 {
		l.forPlace.put(w, b)
		l.boundLocked(w, b)
		return
	}
	l.forPlace.remove(w)
	w.sleepLocked(b, b.rest())
}

// hasEndedLocked returns the error of the context of w if that has ended, or its deadline is
// reached; without a call of the context's methods, which may be the caller's.
func (l *waitLines) hasEndedLocked(w *waiter) error {
	select {
	case <-w.ended:
		return context.Canceled
	default:
	}
	if !w.deadline.IsZero() && !l.rl.clock.At(l.rl.clock.Sync()).Before(w.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// sleepLocked looks again when a wait is over, by the timer of the first line.
// One that only an event ends needs none.
//
// Nothing in the minute takes longer than its span. A longer wait is for the end
// of the day or of a cooldown, which follow the wall clock, and a timer does not
// when the clock is set or the machine was suspended.
func (w *waiter) sleepLocked(b *batch, wait time.Duration) {
	if len(w.places) == 0 || wait <= 0 {
		return
	}
	if w.hasPools() && w.restInPoolsLocked(b, wait) {
		return
	}
	w.places[0].slots.sleepLocked(wait)
}

// serveAllLocked serves all lines, after something that can make room in any of
// them.
func (l *waitLines) serveAllLocked() {
	if l.rl.ledger.serveLaterLocked() {
		return
	}
	for g := range l.occupied {
		if l.rl.pools.any() && !state.IsPool(g.name) {
			g.wakeNextLocked(nil)
		}
	}
	for g := range l.occupied {
		l.serveLineLocked(g)
	}
	l.settleLocked()
}
