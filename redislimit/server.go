package redislimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/breaker"
	"dappco.re/go/core/go-ratelimit/internal/deadline"
	"dappco.re/go/core/go-ratelimit/limit"
)

// server is a server as one limiter sees it: within a timeout, and behind a breaker.
type server struct {
	client  redis.UniversalClient // the caller's
	asked   redis.UniversalClient // what scripts run on: the client, or a copy
	timeout time.Duration
	heeds   bool  // asked heeds the deadlines of contexts
	keep    int64 // milliseconds for which answers are kept; 0 if the client sends nothing twice
	breaker *breaker.Ratio
	onError func(error)
}

func newServer(client redis.UniversalClient, timeout time.Duration, onError func(error)) *server {
	s := &server{client: client, asked: client, timeout: timeout, breaker: breaker.New(breaker.Settings{}), onError: onError}
	s.keep = remembered.Milliseconds()
	switch client := client.(type) {
	case *redis.Client:
		s.asked, s.heeds = heeding(client), true
		if client.Options().MaxRetries == 0 {
			s.keep = 0
		}
	case *redis.ClusterClient:
		s.heeds = client.Options().ContextTimeoutEnabled
	case *redis.Ring:
		s.heeds = client.Options().ContextTimeoutEnabled
	}
	return s
}

// heeding returns the client, or if that ignores the deadlines of contexts a copy on its
// connections that heeds them, so that no call takes a goroutine to be back in time. A copy has no
// hooks.
func heeding(client *redis.Client) *redis.Client {
	was := client.Options()
	if was.ContextTimeoutEnabled {
		return client
	}
	heeds := client.WithTimeout(was.ReadTimeout) // its options are its own
	heeds.Options().WriteTimeout, heeds.Options().ContextTimeoutEnabled = was.WriteTimeout, true
	return heeds
}

// eval runs a script, which must be idempotent, within the timeout, and returns its answer, which
// is a text. Its error is that of the context if the caller gave up, matches limit.ErrInvalid if
// the server refuses what the caller asked for, and is a failure of Redis otherwise, which it
// reports and which matches ErrUnavailable.
func (s *server) eval(ctx context.Context, script *redis.Script, keys []string, args []any) (answer string, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	pass, ok := s.breaker.Enter(time.Now())
	if !ok {
		return answer, errOpen
	}
	outcome := breaker.Failure
	defer func() { s.breaker.Leave(pass, time.Now(), outcome) }()
	answer, err = deadline.Call(ctx, s.timeout, s.heeds, func(ctx context.Context) (string, error) {
		return script.Run(ctx, s.asked, keys, args...).Text()
	})
	switch {
	case err == nil:
		outcome = breaker.Success
		return answer, nil
	case ctx.Err() != nil:
		outcome = breaker.Unknown
		return answer, ctx.Err()
	case redis.HasErrorPrefix(err, "CROSSSLOT"):
		outcome = breaker.Success
		return answer, fmt.Errorf("%w: keys lie in several slots, and the server is a Cluster: %w", limit.ErrInvalid, err)
	}
	if !passes(err) {
		outcome = breaker.Success
	}
	return answer, s.report(err)
}

// passing are the errors of a server that may be gone the next moment.
var passing = []string{"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK", "NOREPLICAS", "OOM", "MISCONF"}

// passes reports whether an error is that of a server that does not serve: none of its answers, or
// one of those that pass.
func passes(err error) bool {
	var answer redis.Error
	return !errors.As(err, &answer) ||
		slices.ContainsFunc(passing, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// within calls f with a context that ends after the timeout, and returns no later. It is for calls
// in the background: it also returns as soon as ctx is cancelled, which takes a goroutine.
func within[T any](ctx context.Context, s *server, f func(context.Context) (T, error)) (T, error) {
	return deadline.Call(ctx, s.timeout, false, f)
}

// report tells OnError of a failure of Redis, or of an answer that cannot be used, and returns what
// matches ErrUnavailable.
func (s *server) report(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	if s.onError != nil {
		s.onError(err)
	}
	return err
}

// failed reports whether an error is a failure of Redis.
func failed(err error) bool { return errors.Is(err, ErrUnavailable) }
