package replica

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// caughtUp is called when all that is in the log was applied.
func (r *Replica) caughtUp() {
	me := r.state.Member(r.process)
	switch {
	case r.status == joining:
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

// comeHome has the process send again, after it was cut off or has loaded an image: first what the
// others have to know before they go on, then what they do not know, then what is unknown here, and
// that under new numbers.
func (r *Replica) comeHome(me *fleet.Member) {
	waiting := r.asks.open()
	r.asks.queue = nil
	for _, a := range waiting {
		delete(r.asks.of, a.n)
	}
	clear(r.asks.lined)
	if me == nil || me.Left {
		r.put(r.joinCommand())
	}
	if me != nil && me.Left { // its calls have ended with that
		r.mine = r.ownCharges()
	}
	if r.wasAway() {
		r.put(fleet.Outage{})
	}
	r.tellFacts()
	if r.isAway {
		r.isAway = false
		r.tellAway(nil)
	}
	r.status, r.life.lostAt, r.life.answered = here, 0, 0
	r.resume(waiting)
	r.cancelStrays()
	r.change()
}

func (r *Replica) joinCommand() fleet.Join {
	return fleet.Join{Lease: int64(r.options.LeaseTTL), MaxModels: r.options.MaxModels, Rules: r.options.Rules}
}

// ownCharges returns the open calls that the log does not know yet.
func (r *Replica) ownCharges() map[account.ID]*record {
	mine := make(map[account.ID]*record)
	if r.alone != nil {
		for _, c := range r.alone.charges {
			if c.fact.Open {
				mine[c.fact.ID] = c.record
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
	r.life.wasCutOff = false
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
	known := make(map[account.ID]bool)
	if r.alone != nil {
		charges := slices.SortedFunc(slices.Values(r.alone.charges), func(a, b *charge) int { return compareFacts(a.fact, b.fact) })
		for _, c := range charges {
			known[c.fact.ID] = true
			r.put(fleet.Verb{Command: c.tell(instant)}).fact = c.record
		}
	}
	if lost := r.life.lostAt; lost != 0 {
		span := r.state.Engine.Span()
		for _, c := range r.life.journal.missing(r.state, instant, lost-span) {
			if told, is := c.(engine.Charged); !is || !known[told.ID] {
				r.put(fleet.Verb{Command: c})
			}
		}
		r.life.journal = journal{}
	}
	for _, id := range sortedIDs(r.mine) {
		k := r.mine[id]
		if known[id] || k.ending || r.state.Engine.Call(id) != nil {
			continue
		}
		if k.holdUntil != 0 && k.holdUntil <= instant {
			delete(r.mine, id)
			continue
		}
		r.put(fleet.Verb{Command: k.tell(instant)})
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

// resume asks anew what is unknown. What the log knows is found by its number.
func (r *Replica) resume(waiting []*ask) {
	for _, a := range waiting {
		verb, is := a.command.(fleet.Verb)
		if !is || a.fact != nil {
			continue
		}
		if told, is := verb.Command.(engine.Charged); is && told.ID.Process != 0 {
			continue // told above, as it is by now
		}
		r.asks.of[a.n] = a
		me := r.state.Member(r.process)
		if r.found(a) {
			continue
		}
		delete(r.asks.of, a.n)
		if _, is := verb.Command.(engine.Settle); !is && me != nil && a.n <= me.N && !asksForRoom(verb.Command) {
			a.answer(answer{})
			continue
		}
		r.number(a)
	}
}

func asksForRoom(c engine.Command) bool {
	switch c.(type) {
	case engine.Admit, engine.Enter:
		return true
	}
	return false
}

// found answers an ask that the engine knows by its number, and reports whether it does.
func (r *Replica) found(a *ask) bool {
	verb, _ := a.command.(fleet.Verb)
	switch c := verb.Command.(type) {
	case engine.Admit:
		if calls := r.callsOf(a.n, len(c.Wants)); calls != nil {
			at := r.state.Engine.Call(calls[0]).At.Instant
			r.own(calls)
			o := engine.Outcome{Calls: calls}
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
			r.settle(a, answer{outcome: engine.Outcome{Ended: []engine.Ended{end}}, at: at})
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
		if r.mine[id] == nil && r.asks.of[id.N] == nil && r.alone.charge(id) == nil {
			r.put(fleet.Verb{Command: engine.Settle{ID: id, How: account.Cancelled}})
		}
	}
	for _, id := range waiters {
		if r.asks.of[id.N] == nil {
			r.put(fleet.Verb{Command: engine.Leave{Process: r.process, N: id.N}})
		}
	}
}
