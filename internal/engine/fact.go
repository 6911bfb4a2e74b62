package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// Charged is a fact: a call was admitted elsewhere, or by a command that is lost. It decides
// nothing, and charges above any limit. Several processes may tell the same call, one after
// another: it only goes on, from open to how it ended.
type Charged struct {
	ID account.ID
	Name
	Ago    int64 // how long ago it was admitted, in nanoseconds
	Tokens state.Count
	Most   money.Amount // that it can cost
	Class  string

	Open bool  // it has not ended,
	Hold int64 // and expires after so many nanoseconds; 0 for never

	How  account.How // it has ended,
	Used state.Count
	Cost money.Amount
}

// Append appends the command.
func (c Charged) Append(to []byte) []byte {
	to = c.Name.append(appendID(wire.AppendUint(to, kindCharged), c.ID))
	to = appendTokens(wire.AppendUint(to, uint64(c.Ago)), c.Tokens)
	to = wire.AppendString(appendMoney(to, c.Most), c.Class)
	if to = wire.AppendBool(to, c.Open); c.Open {
		return wire.AppendUint(to, uint64(c.Hold))
	}
	if to = wire.AppendUint(to, uint64(c.How)); c.How == account.Committed {
		to = appendMoney(appendTokens(to, c.Used), c.Cost)
	}
	return to
}

func readCharged(r *wire.Reader) Command {
	c := Charged{
		ID: readID(r), Name: readModel(r), Ago: int64(r.UpTo(uint64(longestHold))), Tokens: readUsed(r), Most: readMoney(r),
		Class: readString(r),
	}
	if c.Open = r.Bool(); c.Open {
		c.Hold = int64(r.UpTo(uint64(longestHold)))
	} else if c.How = account.How(r.UpTo(uint64(account.Lost))); c.How == account.Committed {
		c.Used, c.Cost = readUsed(r), readMoney(r)
	}
	return c
}

// apply ignores a fact that adds nothing: an open one of an open call, or any fact of a call that
// was told before and has ended.
func (c Charged) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	call := e.Call(c.ID)
	switch {
	case call != nil && c.Open, call == nil && e.told.has(c.ID):
		o.Ignored = true
		return o
	case call == nil:
		call = e.chargePast(&c, now)
	}
	e.told.add(c.ID, now.Instant)
	if !c.Open {
		e.Settle(call, c.How, c.Used, c.Cost, now)
	}
	return o
}

// chargePast makes the call of a fact.
func (e *Engine) chargePast(c *Charged, now account.Now) *account.Call {
	t := e.Resolve(c.Counted, c.Asked)
	at := now.Instant - c.Ago
	call := e.newCall()
	call.ID, call.Asked, call.Class = c.ID, c.Asked, c.Class
	call.Tokens, call.Most = c.Tokens.Clamp(), c.Most
	call.At = account.Now{Instant: at, Wall: now.WallAt(at)}
	charge := func(a *account.Account) {
		a.Refresh(now, e.span)
		payer, wasShown := e.payer(a, c.Most, now), a.IsShown()
		if e.HasReserve(c.Class) {
			u := a.NeedUse(c.Class)
			u.SeenAt = max(u.SeenAt, at, 1)
		}
		if call.ChargePast(a, payer, now, e.span) {
			e.lines.Mark(a)
		}
		if !wasShown {
			e.observer.Shown(a)
		}
	}
	if a := e.toCharge(&t, now); a != nil {
		call.Model = a
		charge(a)
	}
	for _, pool := range t.Pools {
		charge(pool)
	}
	e.open.add(call)
	if c.Open && c.Hold > 0 {
		call.HoldUntil = now.Instant + c.Hold
		e.holds.put(call)
	}
	if e.lines.Waiting() > 0 {
		e.lines.Serve(now)
	}
	return call
}

// told remembers the calls that facts have told, for as long as others may tell them again.
type told struct {
	of    map[account.ID]bool
	order []telling // the oldest first
}

// telling is the first time that a fact has told a call.
type telling struct {
	id account.ID
	at int64 // the instant
}

func (t *told) has(id account.ID) bool { return t.of[id] }

// add notes that a call was told at an instant, no earlier than the others.
func (t *told) add(id account.ID, at int64) {
	if t.of[id] {
		return
	}
	if t.of == nil {
		t.of = make(map[account.ID]bool)
	}
	t.of[id] = true
	t.order = append(t.order, telling{id, at})
}

// forget forgets those before the cut.
func (t *told) forget(cut int64) {
	n := 0
	for n < len(t.order) && t.order[n].at < cut {
		delete(t.of, t.order[n].id)
		n++
	}
	if t.order = t.order[n:]; len(t.order) == 0 {
		t.order = nil
	}
}
