package redislimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Limiter is what the types of this package have in common. Its methods are safe for concurrent
// use.
type Limiter interface {
	// Take charges n units to a key if all of them may pass. With n = 0 it charges nothing and
	// reports the state. A number above what can ever pass at once is refused with Never.
	//
	// Its error matches limit.ErrInvalid for an empty key or a negative n, is ctx.Err() if ctx ends
	// before there is an answer (what cancels it is noticed with the answer, or after
	// Options.Timeout), and otherwise matches ErrUnavailable: Redis gives no answer, and
	// the limiter has FailClosed. With FailOpen and Local a failure of Redis is no error, and the
	// decision is as these say. With an error the Decision is a refusal, but the units may have
	// been charged: repeat the call with the same WithOperation to learn it.
	Take(ctx context.Context, key string, n int) (limit.Decision, error)

	core() *limiter
}

// algorithm is what the kinds of limiters differ in. It decides nothing but what the answer of a
// script says.
type algorithm interface {
	// cost appends the first arguments of the script, those that depend on n, the number of units.
	cost(to []any, n int) []any
	// decide returns the decision on n units, at most most, from the state that was there before.
	// charged tells that the units were charged if they fit.
	decide(state string, now int64, n int, charged bool) (limit.Decision, error)
	// local returns a limiter of this process with a share of the limit.
	local(share Failure) (limit.Limiter, error)
}

// limiter is an algorithm on a server.
type limiter struct {
	algorithm
	kind
	most    int      // how many units can ever pass at once
	args    []any    // of the script, behind the cost; 5 at most together
	basis   [2]int64 // what the cost of units depends on: a window and its grain, or the time of a unit
	server  *server
	suffix  string // of keys
	failure Failure
	denials *denials // nil if none are remembered
	shares  sync.Map // of Local, by Failure: what decides for the limiter itself, and for Groups
}

// newLimiter returns a limiter, which shares its state with those of the same kind and identity.
func newLimiter(client redis.UniversalClient, a algorithm, k kind, identity string, most int, basis [2]int64, o Options, args ...any) *limiter {
	l := &limiter{
		algorithm: a, kind: k, most: most, basis: basis, args: args, server: newServer(client, o.Timeout, o.OnError), failure: o.OnFailure,
		suffix: "}:" + o.Prefix + ":" + layout + ":" + k.name + ":" + identity,
	}
	if o.CacheDenials > 0 {
		l.denials = newDenials(o.CacheDenials)
	}
	return l
}

func (l *limiter) core() *limiter { return l }

// Take charges n units to a key if all of them may pass. See Limiter for its errors.
func (l *limiter) Take(ctx context.Context, key string, n int) (limit.Decision, error) {
	if err := checkTake(key, n); err != nil {
		return limit.Decision{}, fmt.Errorf("take: %w", err)
	}
	sent := time.Now()
	if l.denials != nil && ctx.Value(operationKey{}) == nil { // an operation may have been admitted before
		if d, ok := l.denials.find(key, n, sent); ok {
			return d, nil
		}
	}
	p := newPart(l, key, n)
	c := call{parts: []part{p}, failure: l.failure}
	if n > 0 {
		c.record = p.state + ":op:"
	}
	ds, err := l.server.take(ctx, &c)
	if err != nil {
		return limit.Decision{}, fmt.Errorf("take: %w", err)
	}
	if l.denials != nil && c.answered && ds[0].RetryAfter > 0 {
		l.denials.add(key, n, ds[0], sent)
	}
	return ds[0], nil
}

// decision is decide for any n that is not negative.
func (l *limiter) decision(state string, now int64, n int, charged bool) (limit.Decision, error) {
	if n <= l.most {
		return l.decide(state, now, n, charged)
	}
	d, err := l.decide(state, now, 0, false)
	d.OK, d.Never = false, true
	return d, err
}

// checkTake returns an error that names what is out of range.
func checkTake(key string, n int) error {
	switch {
	case key == "":
		return fmt.Errorf(`%w: key is "", want a name`, limit.ErrInvalid)
	case key[0] == '}':
		return fmt.Errorf("%w: key is %q, want one that does not begin with a closing brace", limit.ErrInvalid, key)
	case n < 0:
		return fmt.Errorf("%w: n is %d, want 0 or more", limit.ErrInvalid, n)
	}
	return nil
}
