// Package room waits for room in a quota, as the commands of the program do.
package room

import (
	"context"
	"errors"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Call is a call that waits for room.
type Call struct {
	ratelimit.Request
	Timeout time.Duration // how long it waits, if Bounded; zero is not at all
	Bounded bool
}

// lookEvery is how often a call that waits looks whether the money is spent meanwhile.
const lookEvery = time.Second

// Wait waits for room, and charges the call where that is asked for. Its errors are those of
// Acquire. A *ratelimit.LimitError that matches ErrBudget comes at once where the money of a day or
// a month is spent, and also once others have spent it.
func (c *Call) Wait(ctx context.Context, limiter *ratelimit.RateLimiter, charges bool) (*ratelimit.Reservation, error) {
	if c.Bounded && c.Timeout == 0 {
		return c.ask(ctx, limiter, charges)
	}
	if err := c.spent(limiter); err != nil {
		return nil, err
	}
	if c.Bounded {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watch(ctx, limiter, cancel)
	r, err := (*ratelimit.Reservation)(nil), error(nil)
	asking := ratelimit.WithFlow(ratelimit.WithClass(ctx, c.Class), c.Flow)
	if charges {
		r, err = limiter.Acquire(asking, c.Model, c.PromptTokens, c.OutputTokens)
	} else {
		err = limiter.WaitForCapacity(asking, c.Model, c.PromptTokens)
	}
	if spent := (*ratelimit.LimitError)(nil); err != nil && errors.As(context.Cause(ctx), &spent) {
		return nil, spent
	}
	return r, err
}

// ask is Wait without a wait.
func (c *Call) ask(ctx context.Context, limiter *ratelimit.RateLimiter, charges bool) (r *ratelimit.Reservation, err error) {
	var d ratelimit.Decision
	if charges {
		var all ratelimit.Reservations
		if all, d = limiter.ReserveContext(ctx, c.Request); d.Allowed {
			return all[0], nil
		}
	} else if d = limiter.DecideRequest(c.Request); d.Allowed {
		return nil, nil
	}
	return nil, &ratelimit.LimitError{Model: c.Model, Decision: d}
}

// watch ends a wait once the money is spent.
func (c *Call) watch(ctx context.Context, limiter *ratelimit.RateLimiter, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.spent(limiter); err != nil {
				cancel(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// briefly is how long money is waited for: the limit of ten minutes slides, and a day is too long.
const briefly = 10 * time.Minute

// spent returns an error where the money of a day or a month is spent. With a call in flight that
// has to end first no time tells of which it is.
func (c *Call) spent(limiter *ratelimit.RateLimiter) error {
	d := limiter.DecideRequest(c.Request)
	switch {
	case d.Allowed || d.Never || !d.OverBudget:
		return nil
	case d.RetryAfter > briefly, d.RetryAfter == 0 && !slides(limiter.Explain(c.Model)):
		return &ratelimit.LimitError{Model: c.Model, Decision: d}
	}
	return nil
}

// slides reports whether money of ten minutes limits a model.
func slides(is ratelimit.Explanation) bool {
	budgets := is.Budgets
	for i := range is.Pools {
		budgets = append(budgets, is.Pools[i].Budgets...)
	}
	return slices.ContainsFunc(budgets, func(b ratelimit.BudgetState) bool {
		return b.Limit == "max_spend_per_ten_minutes" && b.Max > 0
	})
}
