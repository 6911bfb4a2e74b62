package redislimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// Two processes with package keyed over one Origin: what one has charged and drained, the other, to
// which the key is new, reads.
func TestKeyedOverRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := func() *keyed.Limiter {
		return must(keyed.New(keyed.Options{
			Origin: must(redislimit.NewOrigin(newClient(t, server.Addr()), "acme")),
		}))
	}
	request := keyed.Request{Namespace: "requests", Key: "tenant", Limit: 10, Window: 400 * 24 * time.Hour, Cost: 7}
	one, other := process(), process()
	if d, err := one.Take(t.Context(), request); err != nil || !d.OK {
		t.Fatalf("the first: %+v, %v", d, err)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the second has read what the first has charged", func() bool {
		d, err := other.Peek(t.Context(), request)
		return err == nil && d.Remaining == 3
	})
	if d, err := other.Take(t.Context(), request); err != nil || d.OK || d.Remaining != 3 {
		t.Errorf("the second: %+v, %v, want a refusal with 3 left", d, err)
	}
	if err := other.Close(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
