package state

import "dappco.re/go/core/go-ratelimit/money"

// Cost is the charge of requests: how many they are, the tokens of all of them, and the most that
// they can cost together.
type Cost struct {
	Requests int
	Count
	Billed int // of a single request, the output tokens that may be billed; not less than Output
	Money  money.Amount
	Priced bool // Money is known: their models have prices, or need none
}

// Of returns the cost in a dimension.
func (c *Cost) Of(d Dimension) int {
	if Limits[d].Counts {
		return c.Requests
	}
	return c.Count.Of(Limits[d].Tokens)
}
