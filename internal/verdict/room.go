package verdict

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// RoomIn returns how long it takes until one more of a dimension fits, for a caller with a span; 0
// where it fits now, or never. What is kept for classes does not count as used.
func RoomIn(a *account.Account, of state.Dimension, span int64, now account.Now) int64 {
	one := state.Cost{Requests: 1, Count: state.Count{Input: 1}}
	if of == state.OTPM {
		one.Count = state.Count{Output: 1}
	}
	ask := account.Ask{Cost: one, Span: span}
	u := usage{Account: a, ask: &ask, now: now, held: a.HeldFrom(&ask, nil, now)}
	var d account.Denial
	u.check(&d, of, account.ByRPM)
	return d.Wait()
}
