// What callers and Config.OnError are told of requests that fail.

package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// Where most requests are answered, calls go on as ever.
func TestSomeFailuresAreNoOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var reported errorLog
	rl := machine{addr: proxy.Addr(), store: redisstore.Options{Timeout: 5 * time.Second},
		limiter: ratelimit.Config{FailClosed: true, OnError: reported.add}}.start(t)
	limiterOf(t, server.Addr()) // with which it would have to share
	proxy.Set(redistest.Faults{Close: 10})
	var a admitted
	calls := times(400, 10_000)
	for range calls {
		if r := a.reserve(rl, 1); r != nil {
			r.Commit(1, 0)
		}
	}
	closed := proxy.Counts().Closed
	proxy.Set(redistest.Faults{})
	if denied := int(a.denied.Load()); denied > calls/50 {
		t.Errorf("%d of %d calls denied, reported: %v", denied, calls, reported.list())
	}
	if closed < 40 {
		t.Errorf("%d requests failed, want 40 at least", closed)
	}
	a.check(t, server.Addr(), rl)
}

// The error of a limiter that cannot start says what the server answered.
func TestErrorAtStartTellsTheCause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redisstore.New(t.Context(), clientOf(t, server.Addr()), redisstore.Options{Prefix: prefix, OpenTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	server.Do("REPLICAOF", "127.0.0.1", "1")
	_, err = ratelimit.NewWithConfig(ratelimit.Config{Store: store, Quotas: plenty})
	var answer redis.Error
	if err == nil || !errors.As(err, &answer) || !strings.HasPrefix(answer.Error(), "READONLY") {
		t.Errorf("the error is %v, want READONLY", err)
	}
	if text := err.Error(); !strings.HasPrefix(text, "new limiter: redis: open log: ") || !strings.Contains(text, "READONLY") {
		t.Errorf("the error is %q", text)
	}
}

// An error of a server that does not answer says so, and matches the end of the time.
func TestErrorOfSilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rl := machine{addr: proxy.Addr()}.start(t)
	proxy.Set(redistest.Faults{Swallow: true})
	rl.RecordUsage(model, 1, 0)
	if err := rl.Err(); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "redis: ") {
		t.Errorf("Err is %v, want the end of the time", err)
	}
}
