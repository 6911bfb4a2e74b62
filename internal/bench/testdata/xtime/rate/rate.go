// Package rate is golang.org/x/time/rate as far as its tests need it, over
// limit.TokenBucket.
package rate

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

type Limit = limit.Limit

const (
	Inf         = limit.Inf
	InfDuration = limit.InfDuration
)

func Every(interval time.Duration) Limit { return limit.Every(interval).Limit() }

type Limiter struct {
	*limit.TokenBucket

	// One test prints these.
	tokens          float64
	last, lastEvent time.Time
}

func NewLimiter(r Limit, b int) *Limiter {
	return &Limiter{TokenBucket: limit.NewTokenBucket(r, b)}
}

type Reservation struct {
	limit.Reservation

	ok        bool
	timeToAct time.Time
}

func (lim *Limiter) reserveN(t time.Time, n int, maxFutureReserve time.Duration) Reservation {
	r := Reservation{Reservation: lim.HookReserveN(t, n, maxFutureReserve)}
	if r.ok = r.OK(); r.ok {
		r.timeToAct = t.Add(r.DelayFrom(t))
	}
	return r
}

func (lim *Limiter) wait(ctx context.Context, n int, t time.Time, newTimer func(time.Duration) (<-chan time.Time, func() bool, func())) error {
	return lim.HookWait(ctx, n, t, func(ctx context.Context, d time.Duration) error {
		ch, stop, advance := newTimer(d)
		defer stop()
		advance()
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}
