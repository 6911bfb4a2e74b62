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

// algorithm is what the kinds of limiters differ in. It decides nothing but what the report of its
// script says.
type algorithm interface {
	kind() string
	// identity is of the limiters that share a state, beside their kind.
	identity() string
	script() *redis.Script
	// most is how many units can ever pass at once.
	most() int
	// args are the arguments of the script for n units, at most 5.
	args(n int) []any
	// basis is what the cost of units depends on: a window and its grain, or the time of a unit.
	basis() [2]int64
	// decide returns the decision on n units, at most most, from a report of what was there
	// before. charged tells that the units were charged if they fit.
	decide(report string, n int, charged bool) (limit.Decision, error)
	// fresh is the report of a limiter that was never used.
	fresh() string
	// local returns a limiter of this process with a share of the limit.
	local(share Failure) (limit.Limiter, error)
}

// limiter is an algorithm on a server.
type limiter struct {
	algorithm
	server  *server
	suffix  string // of keys
	failure Failure
	denials *denials // nil if none are remembered

	mu     sync.Mutex
	shares map[Failure]*locals // of Local, for the limiter itself and for Groups
}

func newLimiter(client redis.UniversalClient, a algorithm, o Options) *limiter {
	l := &limiter{
		algorithm: a, server: newServer(client, o.Timeout, o.OnError), failure: o.OnFailure,
		suffix: "}:" + o.Prefix + ":" + layout + ":" + a.kind() + ":" + a.identity(),
	}
	if o.CacheDenials > 0 {
		l.denials = newDenials(o.CacheDenials)
	}
	return l
}

// state returns the key of the state of a limiter's key. The suffix has no further closing brace,
// so no two pairs of a key and a limiter have one state.
func (l *limiter) state(key string) string { return "{" + key + l.suffix }

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
	d, err := l.ask(ctx, key, n)
	switch {
	case err == nil:
		if l.denials != nil && d.RetryAfter > 0 {
			l.denials.add(key, n, d, sent)
		}
		return d, nil
	case !failed(err):
		return limit.Decision{}, fmt.Errorf("take: %w", err)
	}
	return l.without(key, n, time.Now(), err)
}

// ask has the server decide.
func (l *limiter) ask(ctx context.Context, key string, n int) (limit.Decision, error) {
	id, named, err := operation(ctx)
	if err != nil {
		return limit.Decision{}, err
	}
	state := l.state(key)
	keep, asked := l.server.keep, n
	if n > l.most() {
		asked = 0
	}
	if asked == 0 {
		keep = -1
	} else if named {
		keep = remembered.Milliseconds()
	}
	args := append(make([]any, 0, 6), keep)
	answer, err := l.server.eval(ctx, l.script(), []string{state, state + ":op:" + id}, append(args, l.args(asked)...))
	if err != nil {
		return limit.Decision{}, err
	}
	ok, reports, err := verdict(answer)
	if err != nil || len(reports) != 1 {
		return limit.Decision{}, l.server.report(errReply)
	}
	d, err := l.decision(reports[0], n, true)
	if ok && named && asked == n && !d.OK { // the first call of the operation asked for fewer units
		d, err = l.decision(reports[0], 0, false)
	}
	if err == nil && d.OK != ok && asked == n {
		err = errReply
	}
	if err != nil {
		return limit.Decision{}, l.server.report(err)
	}
	return d, nil
}

// decision is decide for any n that is not negative.
func (l *limiter) decision(report string, n int, charged bool) (limit.Decision, error) {
	if n <= l.most() {
		return l.decide(report, n, charged)
	}
	d, err := l.decide(report, 0, false)
	d.OK, d.Never = false, true
	return d, err
}

// without decides without the server, which failed with an error.
func (l *limiter) without(key string, n int, now time.Time, cause error) (limit.Decision, error) {
	switch {
	case l.failure == FailOpen:
		return l.decision(l.fresh(), n, true)
	case l.failure.isLocal():
		return l.locals(l.failure).take(key, n, now)
	}
	return limit.Decision{}, fmt.Errorf("take: %w", cause)
}

// locals returns the limiters in memory that have a share.
func (l *limiter) locals(share Failure) *locals {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.shares[share]
	if !ok {
		of = newLocals(l.algorithm, share)
		if l.shares == nil {
			l.shares = make(map[Failure]*locals)
		}
		l.shares[share] = of
	}
	return of
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
