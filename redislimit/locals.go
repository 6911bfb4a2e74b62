package redislimit

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// locals decides for Local: a limiter in memory for each key.
type locals struct {
	limiters *limit.Keyed[string]
	most     int // units that Redis could ever admit
}

const (
	maxLocals  = 100_000
	localsIdle = time.Minute
	// localRetry is when to come back with more units than the share can ever admit.
	localRetry = 5 * time.Second
)

func newLocals(a algorithm, share Failure) *locals {
	limiters, err := limit.NewKeyed(maxLocals, localsIdle, func(string) (limit.Limiter, error) { return a.local(share) })
	if err != nil {
		panic(err) // the parameters are constants
	}
	return &locals{limiters, a.most()}
}

// take decides on n units. What is too much for the share is refused, but not for ever: Redis may
// admit it when it is back.
func (l *locals) take(key string, n int, now time.Time) (limit.Decision, error) {
	d, err := l.limiters.TakeAt(key, now, n)
	if err != nil {
		return limit.Decision{}, fmt.Errorf("take: %w", err)
	}
	return l.temporary(d, n), nil
}

// hold sets n units aside.
func (l *locals) hold(key string, n int, now time.Time) (limit.Hold, limit.Decision, error) {
	h, d, err := l.limiters.HoldAt(key, now, n)
	return h, l.temporary(d, n), err
}

func (l *locals) temporary(d limit.Decision, n int) limit.Decision {
	if d.Never && n <= l.most {
		d.Never, d.RetryAfter = false, localRetry
	}
	return d
}
