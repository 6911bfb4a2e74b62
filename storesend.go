package ratelimit

import (
	"cmp"
	"context"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// settling is the end of a call of this limiter.
type settling struct {
	rl   *RateLimiter
	call *account.Call
	how  account.How
	used state.Count
	cost money.Amount
	now  account.Now
	e    *telling
}

// settle ends a call of this limiter, and returns once that is in the log, or the store is away, or
// the request is over that it is of.
func (s *shared) settle(r *Reservation, how account.How, used state.Count, bill *money.Usage) {
	rl := s.rl
	is := &settling{rl: rl, how: how, used: used, now: s.now()}
	ctx := background
	rl.mu.RLock()
	is.call = r.liveRLocked()
	if is.call != nil {
		ctx = cmp.Or(s.requests[is.call.ID], ctx)
		if how == account.Committed {
			is.cost = rl.costOfRLocked(is.call, used, bill)
		}
	}
	rl.mu.RUnlock()
	if is.call == nil || !r.claim() {
		return
	}
	c := engine.Settle{ID: is.call.ID, How: how, Used: used, Cost: is.cost}
	if err := s.replica.DoOwn(ctx, c, is); err != nil {
		rl.mu.Lock()
		is.Hear(new(engine.Outcome), false)
		rl.mu.Unlock()
	}
	rl.teller.tell(is.e)
}

// Hear implements replica.Owner, with the lock held.
func (is *settling) Hear(o *engine.Outcome, _ bool) {
	c := is.call
	if o == nil || c.Ended { // it may have expired before
		return
	}
	c.Cost = is.cost
	is.e = is.rl.endedLocked(c, is.how, is.used, is.now)
	is.rl.shared.overLocked(c)
}

// expiredLocked notes that a call has ended by itself.
func (s *shared) expiredLocked(id account.ID, how account.How, now account.Now) {
	c := s.calls[id]
	if c == nil { // of another process
		return
	}
	s.rl.teller.postRLocked(s.rl.endedLocked(c, how, c.Tokens, now))
	s.overLocked(c)
}

// endWithLocked notes the request of an llmhttp.Transport that calls are of: nobody waits for their
// settlement once it is over.
func (s *shared) endWithLocked(request context.Context, rs Reservations) {
	for _, r := range rs {
		if r.call != nil {
			s.requests[r.call.ID] = request
		}
	}
}

// overLocked notes that a call has ended.
func (s *shared) overLocked(c *account.Call) {
	c.Ended = true
	delete(s.calls, c.ID)
	delete(s.requests, c.ID)
}

// sending is commands that are sent together.
type sending struct {
	commands []engine.Command
	waits    bool // one of them is more than a report, so its caller waits until it is known
	ends     []ending
	done     chan struct{} // closed when all processes know them
}

// ending is the end of a call of this limiter that the log does not know yet: the call may expire
// before.
type ending struct {
	call *account.Call
	how  account.How
	used state.Count
	now  account.Now
}

// putLocked has a command sent by send or tell, which whoever holds the lock must call afterwards.
func (s *shared) putLocked(c engine.Command) {
	if s.next == nil {
		s.next = &sending{done: make(chan struct{})}
	}
	s.next.commands = append(s.next.commands, c)
	switch c.(type) {
	case engine.Observe, engine.Refuse:
	default:
		s.next.waits = true
	}
}

// endLocked has the end of a call of this limiter sent. It is told of when that is known.
func (s *shared) endLocked(c *account.Call, how account.How, used state.Count, cost money.Amount, now account.Now) {
	c.Cost = cost
	s.putLocked(engine.Settle{ID: c.ID, How: how, Used: used, Cost: cost})
	s.next.ends = append(s.next.ends, ending{c, how, used, now})
}

// lostLocked ends a call whose reservation is garbage, and that must not be sent now: the next send
// does it.
func (s *shared) lostLocked(c *account.Call) {
	s.overLocked(c)
	s.putLocked(engine.Settle{ID: c.ID, How: account.Lost})
}

// record is RecordUsage.
func (s *shared) record(model string, used state.Count, bill *money.Usage) {
	rl := s.rl
	rl.mu.Lock()
	now, t := rl.enterLocked(model)
	closed := rl.closed
	rl.meetRLocked(&t)
	cost := rl.pricing.Cost(&rl.naming, t.Counted, t.Asked, used, bill, now.Wall)
	rl.mu.Unlock()
	if closed {
		return
	}
	c := engine.Record{Name: engine.Name{Asked: t.Asked, Counted: t.Counted}, Span: rl.span(), Used: used, Cost: cost}
	o, err := s.replica.Do(background, c)
	if err != nil {
		return
	}
	rl.mu.Lock()
	_, t = rl.enterLocked(model)
	var a *account.Account
	if o.Done {
		a = rl.engine.Account(t.Counted)
	}
	rl.ledger.Recorded(audited{rl}, t.Counted, a, t.Pools, used, cost)
	rl.mu.Unlock()
	rl.teller.recorded(model, used, cost)
}

// All processes hear each report on a model: so this one sends one in reportEvery, and a few that
// come together.
const (
	reportEvery    = int64(500 * time.Millisecond)
	reportsAtATime = 10
	longestReport  = 40 * time.Millisecond // that its caller waits for the others to hear one
)

// observeLocked has a report sent, unless there were many of late.
func (s *shared) observeLocked(t *engine.Target, r *engine.Report, now account.Now) {
	if r.Limits == (state.ReportedLimits{}) {
		return
	}
	if a := t.Account; a.Name != "" && !r.Refused {
		is := s.rl.localLocked(a)
		if r.Limits == is.report && now.Instant-is.reportedAt < reportEvery {
			return
		}
		is.report = r.Limits
		if is.reports = max(is.reports-(now.Instant-is.reportedAt), 0); is.reports > (reportsAtATime-1)*reportEvery {
			is.reportedAt = now.Instant
			return
		}
		is.reports, is.reportedAt = is.reports+reportEvery, now.Instant
	}
	name := engine.Name{Asked: strings.Clone(t.Asked), Counted: t.Counted}
	s.putLocked(engine.Observe{Name: name, Span: s.rl.span(), Report: *r})
}

// send sends what was put, and returns once all processes know it, or the store is away. The lock
// must not be held.
func (s *shared) send() {
	if s == nil {
		return
	}
	is, last := s.take()
	if is == nil { // others may have taken what was put
		if last != nil {
			<-last.done
		}
		s.rl.teller.flush()
		return
	}
	ctx := background
	if !is.waits { // whoever handles an answer does not wait for a store that hangs
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longestReport)
		defer cancel()
	}
	for i, c := range is.commands {
		if i < len(is.commands)-1 {
			s.replica.Tell(c)
		} else {
			s.replica.Do(ctx, c)
		}
	}
	s.finish(is)
	s.rl.teller.flush()
}

// tell is send without waiting for anything.
func (s *shared) tell() {
	if s == nil {
		return
	}
	if is, _ := s.take(); is != nil {
		for _, c := range is.commands {
			s.replica.Tell(c)
		}
		s.finish(is)
	}
}

// take returns what was put; nil for nothing, with what was sent last.
func (s *shared) take() (is, last *sending) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	is, last, s.next = s.next, s.last, nil
	if is != nil {
		s.last = is
	}
	return is, last
}

// finish ends the calls whose end is known by now, and tells of that.
func (s *shared) finish(is *sending) {
	rl := s.rl
	var ended *telling
	rl.mu.Lock()
	for i := range is.ends {
		if end := &is.ends[i]; !end.call.Ended {
			ended = ended.then(rl.endedLocked(end.call, end.how, end.used, end.now))
			s.overLocked(end.call)
		}
	}
	rl.teller.pendLocked(rl.teller.thawedLocked())
	rl.leaveLocked(rl.nowLocked())
	rl.mu.Unlock()
	close(is.done)
	rl.teller.tell(ended)
}
