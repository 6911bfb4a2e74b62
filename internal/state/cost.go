package state

import "dappco.re/go/core/go-ratelimit/internal/tokens"

// Cost is the charge of requests: how many they are, and the tokens of all of them.
type Cost struct {
	Requests int
	tokens.Count
}

// Of returns the cost in a dimension.
func (c *Cost) Of(d Dimension) int {
	if Limits[d].Counts {
		return c.Requests
	}
	return c.Count.Of(Limits[d].Tokens)
}
