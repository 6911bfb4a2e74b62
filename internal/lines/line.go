package lines

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// line is the queue of one account. The line of a pool holds every waiter of the pool's models,
// and most of them sleep. A waiter is awake there if three things hold: it is next in its models'
// lines, its models let it pass, and the pool denies it or a waiter ahead of it. So a waiter that
// its own model denies holds up nobody in the pool's line.
type line struct {
	account *account.Account
	isPool  bool
	queue   fairLine[*Candidate]
	scarce  state.Dimension // in which it last denied one that waits
	restAt  int64           // the instant at which its head is to be looked at; 0 for none
	at      int             // in the queue of those that rest, counted from 1; 0 for not
	marked  bool            // it is to be served
	needy   bool            // its head waits for a place for a model
}

// head returns the candidate that is next; nil where none is awake.
func (g *line) head() *Candidate {
	if e := g.queue.Head(); e != nil {
		return e.Value
	}
	return nil
}

// isNext reports whether a candidate is next in the line: at its head, or the first of its class
// behind others that yield.
func (g *line) isNext(p *place) bool {
	head := g.queue.Head()
	switch {
	case head == p.entry:
		return true
	case head == nil || !p.entry.IsAwake() || g.queue.Classes() < 2:
		return false
	}
	for _, e := range g.queue.Heads() {
		switch {
		case e == p.entry:
			return true
		case !e.Value.yields:
			return false
		}
	}
	return false
}

// turn returns the candidate that the line tries next, usually the head. The exception is a head
// that waits for several models and is not next in all of their lines. It yields to the oldest
// earlier candidate that is awake here, also waits for several models, and is next in one of
// their lines. Otherwise two such candidates of different classes could block each other forever.
func (g *line) turn() *Candidate {
	first := g.head()
	if first == nil || len(first.models()) < 2 || first.leadsAll() {
		return first
	}
	for e := range g.queue.All() {
		if c := e.Value; e.IsAwake() && len(c.models()) > 1 && c.Waiter.Seq < first.Waiter.Seq && c.leadsAny() {
			first = c
		}
	}
	return first
}

// leadsAll reports whether the candidate is next in the lines of all its models.
func (c *Candidate) leadsAll() bool {
	return !slices.ContainsFunc(c.models(), func(p place) bool { return !p.line.isNext(&p) })
}

// leadsAny reports whether the candidate is next in the line of one of its models.
func (c *Candidate) leadsAny() bool {
	return slices.ContainsFunc(c.models(), func(p place) bool { return p.line.isNext(&p) })
}

// leads reports whether a candidate, or another one of its call, is next in the line of a pool: a
// call does not hold itself up.
func (g *line) leads(p *place, c *Candidate) bool {
	head := g.head()
	return head != nil && head.Waiter == c.Waiter || g.isNext(p)
}

// isNext reports whether it is the candidate's turn in the lines of all its models.
func (c *Candidate) isNext() bool {
	models := c.models()
	for i := range models {
		if p := &models[i]; p.line.turn() != c && (p.line.head() == c || !p.line.isNext(p)) {
			return false
		}
	}
	return len(models) > 0
}

// yieldsTo reports whether nobody of a class waits, and those of all others yield.
func (g *line) yieldsTo(class string) bool {
	for _, e := range g.queue.Heads() {
		if e.Class() == class || !e.Value.yields {
			return false
		}
	}
	return true
}

// noteScarce notes in the lines of a candidate what denies it.
func (c *Candidate) noteScarce() {
	for i := range c.places {
		if c.Items[i].Passes() {
			continue
		}
		for of := range state.Dimensions {
			if state.Limits[of].Code == c.Items[i].Code {
				c.places[i].line.scarce = of
			}
		}
	}
}

// partOf returns what part of the scarce limit an item takes, at least 1; where the quota has no
// such limit, of that of requests.
func partOf(i *verdict.Item, scarce state.Dimension) int64 {
	for _, of := range [...]state.Dimension{scarce, state.RPM, state.InFlight, state.RPD} {
		if limit := *i.Account.Quota.Limit(of); limit > 0 {
			return chargeOf(min(max(i.Ask.Of(of), 0), limit), limit)
		}
	}
	return wholeCharge >> 10 * int64(min(i.Ask.Requests, 1<<10))
}
