package ratelimit

import (
	"context"
	"slices"
)

// ReserveContext is ReserveAll with the context that the events of the reservations get, those of
// their settlement included: see Config.Events. It does not wait, and succeeds also when ctx has
// ended. One request costs as much time as Reserve.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveContext(ctx context.Context, reqs ...Request) (rs Reservations, d Decision) {
	// It is short enough to be inlined, so that one reservation in rs takes no memory of its own.
	if one := rl.reserveContext(ctx, reqs, &rs, &d); one != nil {
		rs = Reservations{one}
	}
	return
}

// reserveContext is ReserveContext. It returns the reservation of a single request, and sets rs for
// more.
func (rl *RateLimiter) reserveContext(ctx context.Context, reqs []Request, rs *Reservations, d *Decision) *Reservation {
	by := callerOf(ctx)
	if len(reqs) == 1 {
		c := reqs[0].cost()
		return rl.reserveOne(&by, d, reqs[0].Model, &c)
	}
	*rs, *d = rl.reserveAll(&by, slices.Clone(reqs)) // which keeps them on the heap
	return nil
}
