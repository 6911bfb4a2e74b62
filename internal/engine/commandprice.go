package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// Price is what a request can cost.
type Price struct {
	Most  money.Amount
	Known bool
}

// Reprice has a waiter of the process ask at other prices: for all requests, one option after the
// other.
type Reprice struct {
	N      int64
	Prices []Price
}

// Append appends the command.
func (c Reprice) Append(to []byte) []byte {
	to = wire.AppendUint(wire.AppendInt(wire.AppendUint(to, kindReprice), c.N), uint64(len(c.Prices)))
	for _, is := range c.Prices {
		to = wire.AppendBool(appendMoney(to, is.Most), is.Known)
	}
	return to
}

func readReprice(r *wire.Reader) Command {
	c := Reprice{N: r.Int()}
	c.Prices = make([]Price, r.Count(mostRequests, 2))
	for i := range c.Prices {
		c.Prices[i] = Price{Most: readMoney(r), Known: r.Bool()}
	}
	return c
}

func (c Reprice) apply(e *Engine, id account.ID, now account.Now) (o Outcome) {
	w := e.waiters[account.ID{Process: id.Process, N: c.N}]
	if o.Ignored = w == nil; o.Ignored {
		return o
	}
	prices := c.Prices
	for _, candidate := range w.Candidates {
		reqs := OptionOf(candidate).Requests
		n := min(len(reqs), len(prices))
		for i, is := range prices[:n] {
			reqs[i].Most, reqs[i].Priced = is.Most, is.Known
		}
		prices = prices[n:]
	}
	e.Serve(now)
	return o
}
