package replica

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// charge is a call that was decided without the log.
type charge struct {
	*record
	from     []*drawn
	wall     int64
	recorded bool // if the log has heard its command, nothing there would tell that from the fact
}

// charges are the calls that the log does not know. An outage may be long: only limits of a day,
// bursts and rates that were found look at all of an account.
type charges struct {
	of   map[account.ID]*charge
	from map[string]*drawn
}

// drawn is what the process has charged to an account.
type drawn struct {
	charges []*charge // in their order; some of them may be known by now
	open    int       // of them, calls in flight
	tokens  state.Count
	money   money.Amount
}

func newCharges() charges {
	return charges{of: make(map[account.ID]*charge), from: make(map[string]*drawn)}
}

func (l *charges) add(k *record, accounts []string, wall int64) *charge {
	c := &charge{record: k, wall: wall}
	for _, name := range accounts {
		d := l.from[name]
		if d == nil {
			d = new(drawn)
			l.from[name] = d
		}
		d.charges = append(d.charges, c)
		c.from = append(c.from, d)
	}
	l.of[k.fact.ID] = c
	c.count(1)
	return c
}

// drawnFrom returns the calls that were charged to an account, in their order.
func (l *charges) drawnFrom(account string) []*charge {
	if d := l.from[account]; d != nil {
		return d.charges
	}
	return nil
}

// count adds what the call has drawn, or with -1 takes it back.
func (c *charge) count(sign int) {
	used, cost := c.cost()
	for _, d := range c.from {
		if c.fact.Open {
			d.open += sign
		}
		if d.money = d.money.Add(cost.Mul(sign)); sign > 0 {
			d.tokens = d.tokens.Plus(used)
		} else {
			d.tokens = d.tokens.Over(used)
		}
	}
}

// settle ends the call.
func (c *charge) settle(how engine.Settle) {
	c.count(-1)
	c.end(how)
	c.count(1)
}

// told notes that the log knows a call by now.
func (l *charges) told(k *record) {
	if c := l.of[k.fact.ID]; c != nil && c.record == k {
		c.count(-1)
		delete(l.of, k.fact.ID)
	}
}

// forget forgets the calls that the log knows, which must be done before the process goes by its
// share.
func (l *charges) forget() {
	isKnown := func(c *charge) bool { return l.of[c.fact.ID] != c }
	for name, d := range l.from {
		if d.charges = slices.DeleteFunc(d.charges, isKnown); len(d.charges) == 0 {
			delete(l.from, name)
		}
	}
}

// of returns what the call counts in a dimension.
func (c *charge) of(d state.Dimension) int {
	switch limit := &state.Limits[d]; {
	case !c.fact.Open && c.fact.How == account.Cancelled:
		return 0
	case limit.Counts:
		return 1
	case !c.fact.Open && c.fact.How == account.Committed:
		return c.fact.Used.Of(limit.Tokens)
	default:
		return c.fact.Tokens.Of(limit.Tokens)
	}
}

// cost returns the tokens that the call has used, or estimates, and what it has cost, or can cost.
func (k *record) cost() (used state.Count, cost money.Amount) {
	switch f := &k.fact; {
	case !f.Open && f.How == account.Cancelled:
		return state.Count{}, 0
	case !f.Open && f.How == account.Committed:
		return f.Used, f.Cost
	default:
		return f.Tokens, f.Most
	}
}
