package engine

import (
	"cmp"
	"iter"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// Price is what a request can cost.
type Price struct {
	Most  money.Amount
	Known bool
}

// mostRepriced is how many waiters one Reprice may name.
const mostRepriced = 4096

// Reprice has waiters of the process ask at other prices. All of them do before any is served: one
// that goes by that makes room for others.
type Reprice struct{ Waiters []Repriced }

// Repriced is what a waiter asks at: the prices of all requests, one option after the other.
type Repriced struct {
	N      int64
	Prices []Price
}

// Reprices returns the commands for waiters, in the order of their numbers.
func Reprices(all []Repriced) iter.Seq[Reprice] {
	slices.SortFunc(all, func(a, b Repriced) int { return cmp.Compare(a.N, b.N) })
	return func(yield func(Reprice) bool) {
		for part := range slices.Chunk(all, mostRepriced) {
			if !yield(Reprice{Waiters: part}) {
				return
			}
		}
	}
}

// Append appends the command.
func (c Reprice) Append(to []byte) []byte {
	to = wire.AppendUint(wire.AppendUint(to, kindReprice), uint64(len(c.Waiters)))
	for _, w := range c.Waiters {
		to = wire.AppendUint(wire.AppendInt(to, w.N), uint64(len(w.Prices)))
		for _, is := range w.Prices {
			to = wire.AppendBool(appendMoney(to, is.Most), is.Known)
		}
	}
	return to
}

func readReprice(r *wire.Reader) Command {
	c := Reprice{Waiters: make([]Repriced, r.Count(mostRepriced, 2))}
	for i := range c.Waiters {
		w := &c.Waiters[i]
		w.N, w.Prices = r.Int(), make([]Price, r.Count(mostRequests, 2))
		for k := range w.Prices {
			w.Prices[k] = Price{Most: readMoney(r), Known: r.Bool()}
		}
	}
	return c
}

func (c Reprice) apply(e *Engine, id account.ID, now account.Now) (o Outcome) {
	o.Ignored = true
	for i := range c.Waiters {
		if w := e.waiters[account.ID{Process: id.Process, N: c.Waiters[i].N}]; w != nil {
			c.Waiters[i].price(w)
			o.Ignored = false
		}
	}
	if !o.Ignored {
		e.Serve(now)
	}
	return o
}

// price has a waiter ask at the prices.
func (c *Repriced) price(w *lines.Waiter) {
	prices := c.Prices
	for _, candidate := range w.Candidates {
		reqs := OptionOf(candidate).Requests
		n := min(len(reqs), len(prices))
		for i, is := range prices[:n] {
			reqs[i].Most, reqs[i].Priced = is.Most, is.Known
		}
		prices = prices[n:]
	}
}
