package tally

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// mostClasses bounds the classes of which sums are kept, however often there are others.
const mostClasses = 1000

// Ledger adds up what becomes of the calls of a limiter. The zero value is empty. It is not safe
// for concurrent use.
type Ledger struct {
	Models    Book                  // and pools, by the names under which they are counted
	Classes   Book                  // but for the calls without a class, which are the rest
	Estimates map[string]*Estimates // of models, by counted name
}

// Host is whose calls a ledger adds up.
type Host interface {
	// HasRoom reports whether a name that is new has sums of its own.
	HasRoom(name string) bool
	// Noted returns what the ledger notes beside an account.
	Noted(a *account.Account) *Noted
}

// Noted is what a ledger has of an account, so that it looks up no name for a call. The zero value
// is that of an account without calls.
type Noted struct {
	sums      *Sums
	estimates *Estimates
	common    bool // the sums are not its own,
	open      int  // and have so many calls of it that have not ended
}

// Reserved adds a call that was admitted.
func (l *Ledger) Reserved(h Host, c *account.Call) {
	if a := c.Alone(); a != nil { // nearly each call
		n := h.Noted(a)
		l.of(h, a, n).Reserved.Add(c.Tokens, c.Most)
		n.open++
		return
	}
	l.each(h, c, 1, func(s *Sums) { s.Reserved.Add(c.Tokens, c.Most) })
}

// Ended adds a call that has ended. used is what it used where it was committed.
func (l *Ledger) Ended(h Host, c *account.Call, how account.How, used state.Count) {
	var n *Noted
	if c.Model != nil {
		n = h.Noted(c.Model)
	}
	if a := c.Alone(); a != nil {
		l.of(h, a, n).End(c, how, used)
		n.open = max(n.open-1, 0)
	} else {
		l.each(h, c, -1, func(s *Sums) { s.End(c, how, used) })
	}
	// A call that used nothing failed, and tells nothing of the estimate. A pool has no estimates
	// but those of its models.
	if how == account.Committed && n != nil && used != (state.Count{}) {
		l.estimatesOf(c.Model, n).Add(c.Tokens.Total(), used.Total())
	}
}

// Recorded adds a call that was not reserved, to its model and its pools. a is the account of the
// model; nil where it had no place.
func (l *Ledger) Recorded(h Host, name string, a *account.Account, pools []*account.Account, used state.Count, cost money.Amount) {
	if a != nil {
		l.of(h, a, h.Noted(a)).Recorded.Add(used, cost)
	} else {
		l.named(h, name).Recorded.Add(used, cost)
	}
	for _, pool := range pools {
		l.of(h, pool, h.Noted(pool)).Recorded.Add(used, cost)
	}
}

// each visits the sums of a call: of its model, of each of its pools, and of its class. The model
// of a call that only pools have counted had no place. more is how many more of the calls are open.
func (l *Ledger) each(h Host, c *account.Call, more int, add func(*Sums)) {
	counts := false
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil {
			n := h.Noted(a)
			add(l.of(h, a, n))
			n.open = max(n.open+more, 0)
			counts = true
		}
	}
	if !counts {
		return
	}
	if c.Model == nil {
		add(l.named(h, Other))
	}
	if c.Class != "" {
		add(l.Classes.Of(c.Class, len(l.Classes) < mostClasses))
	}
}

// of returns the sums of an account, beside which n is noted. One that has none of its own may have
// room for them by now: they begin once none of its calls is open.
func (l *Ledger) of(h Host, a *account.Account, n *Noted) *Sums {
	if n.sums == nil || n.common && n.open == 0 {
		n.sums = l.named(h, a.Name)
		if n.common = n.sums != l.Models[a.Name]; !n.common {
			n.estimates = nil
		}
	}
	return n.sums
}

func (l *Ledger) named(h Host, name string) *Sums { return l.Models.Of(name, h.HasRoom(name)) }

// estimatesOf returns how the estimates of a model were, beside which n is noted. Those without
// sums of their own have one in common.
func (l *Ledger) estimatesOf(a *account.Account, n *Noted) *Estimates {
	if n.estimates == nil {
		n.estimates = l.newEstimates(a)
	}
	return n.estimates
}

func (l *Ledger) newEstimates(a *account.Account) *Estimates {
	name := a.Name
	if l.Models[name] == nil {
		name = Other
	}
	if l.Estimates[name] == nil {
		if l.Estimates == nil {
			l.Estimates = make(map[string]*Estimates)
		}
		l.Estimates[name] = new(Estimates)
	}
	return l.Estimates[name]
}
