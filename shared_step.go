package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/outbox"
)

// step makes a change, and before and after it the changes that are due, such as serving a waiter.
// The caller holds the writer's token.
//
// Each due change is written in a step of its own, because the next decision must not build on an
// unwritten one.
func (s *ledger) step(ctx context.Context, decide func(*plan)) error {
	for decided := false; ; {
		p, err := s.once(ctx, func(p *plan) {
			p.due()
			if p.empty() && !decided {
				p.asked = true
				decide(p)
			}
		})
		if err != nil {
			return err
		}
		if p.asked {
			decided, ctx = true, background
		}
		if due := s.isAnythingDue(p); decided && !due {
			return nil
		}
	}
}

// once makes one step, in the log or, when that is down, in memory.
func (s *ledger) once(ctx context.Context, decide func(*plan)) (*plan, error) {
	if s.down.Load() || s.closed.Load() {
		return s.inMemory(decide), nil
	}
	s.rl.mu.RLock()
	seen := s.seen
	s.rl.mu.RUnlock()
	if s.torn.Swap(false) {
		seen = sharedlog.Everything
	}
	began := s.rl.teller.now()
	p, err := s.attempt(ctx, seen, decide)
	switch {
	case err == nil:
		if !p.isNothing() {
			s.rl.teller.saved(s.system, stepOperation, began, nil)
		}
	case errors.Is(err, sharedlog.ErrIncomplete) && p != nil && len(p.made) == 0:
		// The log is all right, and memory lacks events that were deleted.
		wake(s.keepPlan(p))
		if _, err := s.attempt(background, sharedlog.Everything, nothing); err != nil {
			s.drop()
			s.fail(err)
		}
	case errors.Is(err, sharedlog.ErrNoTime):
		// The caller's time is over, and the log may be all right.
		return nil, cmp.Or(ctx.Err(), context.DeadlineExceeded)
	default:
		s.rl.teller.saved(s.system, stepOperation, began, err)
		s.fail(err)
		switch {
		case p == nil:
			p = s.inMemory(decide)
		case s.remote != nil && len(p.made) > 0:
			s.doubt(p)
		default:
			wake(s.keepPlan(p))
		}
	}
	return p, nil
}

// mostReplacements is how often a step begins anew because the log is another one.
const mostReplacements = 3

// attempt makes one step in the log. Where it fails after something was decided it returns
// that, too: the log may have it.
func (s *ledger) attempt(ctx context.Context, seen int64, decide func(*plan)) (*plan, error) {
	step, err := s.log.Begin(ctx, seen)
	if errors.Is(err, sharedlog.ErrReplaced) {
		step, err = s.log.Begin(ctx, sharedlog.Everything)
	}
	if err != nil {
		return nil, err
	}
	return s.carryOut(ctx, step, decide)
}

// carryOut decides in a step, again where others come first, and ends it.
func (s *ledger) carryOut(ctx context.Context, step sharedlog.Step, decide func(*plan)) (*plan, error) {
	for conflicts := 0; ; conflicts++ {
		p := s.plan(step.News(), decide)
		if p.isNothing() && !(s.remote != nil && p.decides()) {
			step.Rollback()
			s.confirm(p, 0, nil)
			return p, nil
		}
		first, err := step.Commit(&p.batch)
		if err == nil {
			s.confirm(p, first, step)
			return p, nil
		}
		replaced := errors.Is(err, sharedlog.ErrReplaced)
		if !errors.Is(err, sharedlog.ErrConflict) && !(replaced && conflicts < mostReplacements) {
			return p, err
		}
		again := s.discard(p) || replaced
		if s.remote == nil {
			err = sharedlog.GiveWay(ctx, conflicts)
		} else {
			err = ctx.Err() // a remote log gives way by itself
		}
		if err != nil {
			step.Rollback()
			return nil, err
		}
		if again {
			// The outbox was merged with what the log said before.
			step.Rollback()
			if step, err = s.log.Begin(ctx, sharedlog.Everything); err != nil {
				return nil, err
			}
		}
	}
}

// plan applies the news and decides.
func (s *ledger) plan(news sharedlog.News, decide func(*plan)) *plan {
	var dead []int64
	if news.Image != nil {
		dead = slices.DeleteFunc(slices.Clone(news.Image.Processes), func(process int64) bool {
			return process == s.id || s.log.Owner(process) != sharedlog.Dead
		})
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	if news.Image != nil {
		s.rl.clock.Compare() // with a remote log's clock, which is known now
		s.rebuildLocked(&news)
	} else {
		s.applyNewsLocked(&news)
	}
	p := s.newPlanLocked()
	p.joins = news.Image != nil
	for _, process := range dead {
		p.addNow(&sharedlog.Event{Kind: sharedlog.Gone, Ref: process})
	}
	decide(p)
	if !p.empty() { // what is written anyway costs no transaction
		p.tell(s.learnt.Due(&s.rl.answers))
	}
	p.fill()
	s.pending = p
	return p
}

// fill fills the batch of a plan. Only a batch that adds an event deletes any, so that the
// last place in the log is never given twice.
func (p *plan) fill() {
	s, b := p.s, &p.batch
	instant := s.rl.clock.Sync()
	*b = sharedlog.Batch{
		Events: p.events,
		Wall:   s.rl.clock.UnixNano(instant), Mono: p.machine.At(instant),
		Renew: p.joins || s.lease.IsDue(instant) && s.peers.HasAny(s.id),
		Added: p.added, Appends: s.remote != nil && !p.decides(),
	}
	if kept := s.outbox.Events(); len(kept) > 0 {
		b.Events = slices.Concat(kept, p.events)
		added, known := s.outbox.AllAdded()
		b.Added, b.Appends = slices.Concat(added, p.added), b.Appends && known
	}
	if p.joins && s.lost != nil {
		b.Vouch = slices.AppendSeq(b.Vouch, s.peers.Processes())
	}
	if s.rl.naming.MatchVersions {
		b.NameOf = s.nameOf
	}
	if len(b.Events) == 0 {
		return
	}
	s.outbox.Tried(s.lastN)
	b.Sweep = instant >= s.sweepAt
	p.expired = s.tail.Expired(s.peers, sharedlog.Horizon(instant, s.keep))
	b.Passed, b.Drops = p.expired.Events, p.expired.Drops
}

// nameOf returns the name under which a model is counted.
func (s *ledger) nameOf(model string) string {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.nameRLocked(model)
}

// confirm does what a plan has planned, after the step wrote it from a place of the log on. Without
// a step there was nothing to write.
func (s *ledger) confirm(p *plan, first int64, step sharedlog.Step) {
	var stored []*sharedlog.Event // the plan's events, as a remote log has them
	var before sharedlog.News     // what came before them, which they did not mind
	if step != nil && s.remote != nil {
		before = step.News()
		n := len(before.Events) - len(p.batch.Events)
		before.Events, stored = before.Events[:n], before.Events[n:]
	}
	s.rl.mu.Lock()
	instant := s.rl.clock.Sync()
	b := &p.batch
	if b.Renew {
		s.lease.Renewed(instant)
	}
	if b.Sweep {
		s.sweepAt = instant + minute
	}
	s.lines.confirm(p)
	if len(b.Events) > 0 {
		s.tail.Pass(s.peers, &p.expired)
	}
	if len(before.Events) > 0 {
		s.applyNewsLocked(&before)
	}
	for i, e := range b.Events {
		if stored != nil && e.Seq == 0 {
			e.Wall, e.Day, e.HasDay = stored[i].Wall, stored[i].Day, stored[i].HasDay
			if e.HasDay && len(before.Events) > 0 {
				s.asOf(instant).setDay(e.Model, e.Day) // also of what memory has already
			}
		}
		s.writtenLocked(e, first+int64(i), instant)
	}
	if p.joins {
		s.lost = nil
		if s.down.Load() {
			s.err, s.division = nil, nil
			s.down.Store(false)
			s.rl.teller.storeRLocked(s.system, nil)
		}
	}
	served := s.finishLocked(p)
	s.rl.mu.Unlock()
	wake(served)
}

// writtenLocked applies an own event that is in the log now. It is in memory already if it was in
// the outbox, or if a read of the log has met it.
func (s *ledger) writtenLocked(e *sharedlog.Event, seq, instant int64) {
	switch {
	case e.Seq != 0:
		return
	case s.outbox.Remove(e.Key()):
		e.Seq = seq
		if h := s.peers.Reservation(e.Process, e.N); h != nil && e.Kind == sharedlog.Reserve {
			h.SetPlace(seq)
		}
	default:
		e.Seq = seq
		if s.remote != nil && e.Kind != sharedlog.Cooldown {
			// All limiters date it by the clock of the store.
			e.At = max(e.At, min(s.rl.clock.Instant(e.Wall)-e.Age, instant-e.Age))
		}
		s.asOf(instant).apply(e)
	}
	s.tail.Push(e)
	s.seen = max(s.seen, seq)
	s.seenSoFar.Store(s.seen)
}

// finishLocked ends a plan whose events were applied, and returns the waiters to wake.
func (s *ledger) finishLocked(p *plan) (served []*waiter) {
	for _, f := range p.after {
		f()
	}
	p.auditLocked()
	s.rl.teller.endPlannedLocked(p.settled)
	s.endPlanLocked()
	served, s.lines.served = s.lines.served, nil
	s.jobs.Finish(p.jobs)
	return served
}

func (s *ledger) endPlanLocked() {
	s.pending = nil
	s.own.clear()
}

// discard drops a plan of which nothing was written. It reports whether memory has to be
// made anew.
func (s *ledger) discard(p *plan) (again bool) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	s.lastN = p.base
	s.endPlanLocked()
	return len(s.outbox.Events()) > 0
}

// drop is discard for a plan that may have been written. Its numbers are not used again.
func (s *ledger) drop() {
	s.rl.mu.Lock()
	s.endPlanLocked()
	s.rl.mu.Unlock()
}

// inMemory makes one step while the log is down.
func (s *ledger) inMemory(decide func(*plan)) *plan {
	s.rl.mu.Lock()
	p := s.newPlanLocked()
	decide(p)
	s.pending = p
	s.rl.mu.Unlock()
	wake(s.keepPlan(p))
	return p
}

// keepPlan does what a plan has planned, and keeps its events until the log is back. It returns the
// waiters to wake.
func (s *ledger) keepPlan(p *plan) (served []*waiter) {
	s.rl.mu.Lock()
	instant := s.rl.clock.Sync()
	s.lines.confirm(p)
	if !s.closed.Load() {
		for i, e := range p.events {
			if e.Seq == 0 { // a reader may have met it
				s.asOf(instant).apply(e)
				s.outbox.Add(e, p.added[i])
			}
		}
		s.packLocked()
	}
	served = s.finishLocked(p)
	s.rl.mu.Unlock()
	return served
}

// packLocked packs the outbox, if it is long and the log is down.
func (s *ledger) packLocked() {
	if !s.outbox.IsLong() || !s.down.Load() {
		return
	}
	f := s.asOf(s.rl.clock.Sync())
	tallies := s.outbox.Pack(outbox.Present{
		Process: s.id, Instant: f.instant, Horizon: sharedlog.Horizon(f.instant, s.keep),
		IsOpen: s.peers.IsOpen,
		IsOver: func(model string, at int64) bool { return f.dayIsOver(f.window(model), at) },
	})
	machine := s.log.Clock()
	for _, e := range tallies {
		s.lastN++
		s.stampLocked(e, s.lastN, machine)
	}
}

// wake wakes waiters whose wait has ended.
func wake(served []*waiter) {
	for _, w := range served {
		close(w.done)
	}
}
