package replica

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// caughtUp is called when all that is in the log was applied.
func (r *Replica) caughtUp() {
	me := r.state.Member(r.process)
	switch {
	case r.status == joining, r.life.leaves:
	case r.status != here, me == nil || me.Left:
		r.comeHome(me)
	case r.life.stray:
		r.cancelStrays()
	}
	if me := r.state.Member(r.process); r.status == here && !r.doubts && me != nil && !me.Left && me.Owes != 0 && me.Owes != r.life.answered {
		r.life.answered = me.Owes
		r.put(fleet.Answer{Outage: me.Owes})
	}
}

// comeHome has the process send again, after it was cut off or has loaded an image. First it says
// that it is there: once that is heard, what was sent before is in the log or never will be. Then
// it tells what the others have to know before they go on, then what they do not know, then what is
// unknown here, and that under new numbers.
func (r *Replica) comeHome(me *fleet.Member) {
	r.take()
	if r.status == cutOff { // and hears of others all the same
		r.alone.shares = max(r.alone.shares, r.state.Size())
	}
	switch {
	case r.isOut(r.life.home):
		return
	case r.life.home == nil, me == nil || me.Left:
		r.setOut(me)
		return
	}
	waiting := slices.DeleteFunc(r.asks.open(), r.landed)
	r.asks.queue, r.asks.flown = nil, nil
	for _, a := range waiting {
		delete(r.asks.of, a.n)
	}
	clear(r.asks.lined)
	r.life.home, r.life.wasCutOff = nil, false
	r.life.anew = false
	r.tellFacts()
	r.life.homeN = r.asks.last
	r.isAlone.Store(false)
	r.err = nil
	r.status, r.life.lostAt, r.life.answered = here, 0, 0
	r.resume(waiting)
	r.cancelStrays()
	r.atHome()
	r.change()
}

// setOut sends what is sent first on the way home. A process that is cut off remains so until that
// is heard.
func (r *Replica) setOut(me *fleet.Member) {
	r.asks.queue = nil
	if me == nil || me.Left {
		r.put(r.joinCommand())
	}
	if me != nil && me.Left { // its calls have ended with that
		r.mine = r.ownCharges()
	}
	if r.wasAway() || r.life.anew && (me == nil || me.Owes == 0) {
		r.life.home = r.put(fleet.Outage{})
	} else {
		r.life.home = r.put(fleet.Alive{})
	}
	if r.status != cutOff {
		r.status = catching
	}
}

// turnBack forgets what was sent on the way home.
func (r *Replica) turnBack() {
	r.life.home = nil
	for _, a := range r.asks.open() {
		if _, is := a.command.(fleet.Verb); !is {
			r.asks.drop(a)
		}
	}
}

// landed answers an ask that the log has heard, and reports whether it did. A call that has ended
// there must not be told as an open one; its end may have been heard under an earlier number.
func (r *Replica) landed(a *ask) bool {
	verb, is := a.command.(fleet.Verb)
	if !is {
		return false
	}
	isHeard := r.state.Member(r.process).Heard(a.n)
	end, is := verb.Command.(engine.Settle)
	if is && (isHeard || a.sent && r.state.Engine.Call(end.ID) == nil && r.knows(r.process, end.ID.N, end.ID)) {
		delete(r.mine, end.ID)
	}
	if !isHeard || resumes(verb.Command) {
		return false
	}
	r.settle(a, answer{})
	return true
}

// resumes reports whether a command is asked again that may be in the log: what that has brought
// about is found, or it does nothing the second time.
func resumes(c engine.Command) bool {
	switch c.(type) {
	case engine.Admit, engine.Enter, engine.Settle, engine.Charged:
		return true
	}
	return false
}

// atHome tells that the log is there again, once the others know what the process has charged, and
// it may use the whole quota.
func (r *Replica) atHome() {
	me := r.state.Member(r.process)
	if r.isAway && r.status == here && me != nil && me.N >= r.life.homeN && (me.Owes == 0 || r.doubts) {
		r.isAway = false
		r.alone.charges.forget()
		r.tellAway(nil)
		r.change()
	}
}

func (r *Replica) joinCommand() fleet.Join {
	return fleet.Join{Lease: int64(r.options.LeaseTTL), MaxModels: r.options.MaxModels, Rules: fleet.Rules}
}

// ownCharges returns the open calls that the log does not know yet.
func (r *Replica) ownCharges() map[account.ID]*record {
	mine := make(map[account.ID]*record)
	if r.alone != nil {
		for id, c := range r.alone.charges.of {
			if c.fact.Open {
				mine[id] = c.record
			}
		}
	}
	return mine
}

// wasAway reports whether the process was cut off, and nobody has told of an outage since.
func (r *Replica) wasAway() bool {
	if r.status != cutOff && !r.life.wasCutOff {
		return false
	}
	outage := r.life.outageAt
	if me := r.state.Member(r.process); me != nil && me.Owes != 0 {
		outage = max(outage, me.Until-me.Lease-r.state.Engine.Span())
	}
	return outage < r.alone.since
}

// tellFacts tells what was charged without the log, what a lost log has not, and own calls that it
// does not know.
func (r *Replica) tellFacts() {
	instant := r.clock.expected()
	if r.alone != nil {
		charges := slices.SortedFunc(maps.Values(r.alone.charges.of), func(a, b *charge) int { return compareFacts(a.fact, b.fact) })
		for _, c := range charges {
			if c.recorded && r.knows(r.process, c.fact.ID.N, c.fact.ID) {
				r.alone.charges.told(c.record)
				continue
			}
			r.put(fleet.Verb{Command: c.tell(instant)}).fact = c.record
		}
	}
	if lost := r.life.lostAt; lost != 0 {
		span := r.state.Engine.Span()
		for _, c := range r.life.journal.missing(r.knows, r.knowsPages(), instant, lost-span) {
			r.put(fleet.Verb{Command: c})
		}
		r.journal.precede(&r.life.journal)
	}
	for _, id := range sortedIDs(r.mine) {
		k := r.mine[id]
		if r.alone.charge(id) != nil || r.state.Engine.Call(id) != nil || k != nil && k.ending {
			continue
		}
		if k == nil || k.holdUntil != 0 && k.holdUntil <= instant {
			delete(r.mine, id)
			continue
		}
		r.put(fleet.Verb{Command: k.tell(instant)})
	}
}

// knows reports whether the log has heard a command, and no waiter stands there for a call that was
// made by it.
func (r *Replica) knows(process, n int64, of account.ID) bool {
	return r.state.Member(process).Heard(n) && r.state.Engine.Waiter(of.Process, of.N) == nil
}

// knowsPages returns a function that reports whether the log knows all that is in a page: it has
// heard all numbers there, and none of its waiters can have one of them.
func (r *Replica) knowsPages() func(*page) bool {
	waiting := make(map[int64]int64) // the least number of a waiter of each process
	for _, w := range r.state.Engine.Waiters() {
		if n, is := waiting[w.ID.Process]; !is || w.ID.N < n {
			waiting[w.ID.Process] = w.ID.N
		}
	}
	return func(p *page) bool {
		for process, of := range p.numbers {
			n, waits := waiting[process]
			if waits && n <= of.greatest || !r.state.Member(process).HeardAll(of.least, of.greatest) {
				return false
			}
		}
		return true
	}
}

func sortedIDs(all map[account.ID]*record) []account.ID {
	ids := make([]account.ID, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b account.ID) int {
		return compareFacts(engine.Charged{ID: a}, engine.Charged{ID: b})
	})
	return ids
}

// resume asks anew what is unknown, but for facts that were told as they are by now. What the log
// knows is found by its number.
func (r *Replica) resume(waiting []*ask) {
	for _, a := range waiting {
		verb, is := a.command.(fleet.Verb)
		if !is || a.fact != nil {
			continue
		}
		if fact, is := verb.Command.(engine.Charged); is {
			switch isHeard := r.knows(fact.ID.Process, fact.ID.N, fact.ID); {
			case isHeard && fact.Open:
				continue
			case isHeard:
				a.tell(endOf(&fact))
			default:
				a.tell(older(fact, int64(time.Since(a.since))))
			}
		}
		r.asks.of[a.n] = a
		if r.found(a) {
			continue
		}
		delete(r.asks.of, a.n)
		r.tellRecord(a, verb.Command)
		r.number(a)
	}
}

// tellRecord has an ask that was sent tell as a fact what was recorded: others may have heard it in
// a log that is lost, and tell it, too.
func (r *Replica) tellRecord(a *ask, command engine.Command) {
	c, is := command.(engine.Record)
	if !is || !a.sent {
		return
	}
	a.tell(recorded(&c, r.process, a.n))
	a.answer(answer{outcome: &engine.Outcome{Done: true}})
}

// found answers an ask that the engine knows by its number, and reports whether it does.
func (r *Replica) found(a *ask) bool {
	verb, _ := a.command.(fleet.Verb)
	switch c := verb.Command.(type) {
	case engine.Admit:
		if calls := r.callsOf(a.n, len(c.Wants)); calls != nil {
			at := r.state.Engine.Call(calls[0]).At.Instant
			r.own(calls)
			o := &engine.Outcome{Calls: calls}
			o.Verdict.Allowed, o.Verdict.Code = true, "ok"
			r.settle(a, answer{outcome: o, at: at})
			return true
		}
	case engine.Enter:
		if r.state.Engine.Waiter(r.process, a.n) != nil {
			r.stands(a)
			return true
		}
		for i, wants := range c.Options {
			calls := r.callsOf(a.n, len(wants))
			if len(calls) < len(wants) || r.state.Engine.Call(calls[0]).Asked != wants[0].Asked {
				continue
			}
			at := r.state.Engine.Call(calls[0]).At.Instant
			r.own(calls)
			end := engine.Ended{ID: account.ID{Process: r.process, N: a.n}, Served: i, Calls: calls, Of: -1}
			r.settle(a, answer{outcome: &engine.Outcome{Ended: []engine.Ended{end}}, at: at})
			return true
		}
	}
	return false
}

// callsOf returns the open calls of an own number.
func (r *Replica) callsOf(n int64, most int) (calls []account.ID) {
	for place := range int32(most) {
		id := account.ID{Process: r.process, N: n, Place: place}
		if r.state.Engine.Call(id) != nil {
			calls = append(calls, id)
		}
	}
	return calls
}

// cancelStrays ends the calls and the waiters under numbers of this process that nobody here knows,
// and that are not told otherwise.
func (r *Replica) cancelStrays() {
	r.life.stray = false
	calls, waiters := r.state.Engine.Of(r.process)
	for _, id := range calls {
		if _, is := r.mine[id]; !is && r.asks.of[id.N] == nil && r.alone.charge(id) == nil {
			r.put(fleet.Verb{Command: engine.Settle{ID: id, How: account.Cancelled}})
		}
	}
	for _, id := range waiters {
		if r.asks.of[id.N] == nil {
			r.put(fleet.Verb{Command: engine.Leave{Process: r.process, N: id.N}})
		}
	}
}
