package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// calls are the methods of a log that ask the server.
var calls = map[string]func(context.Context, store.Log) error{
	"append": func(ctx context.Context, l store.Log) error {
		_, err := l.Append(ctx, start.At, oneEntry(1))
		return err
	},
	"read": func(ctx context.Context, l store.Log) error {
		_, err := l.Read(ctx, start.At, time.Minute, 0)
		return err
	},
	"load":  func(ctx context.Context, l store.Log) error { _, err := l.Load(ctx); return err },
	"save":  func(ctx context.Context, l store.Log) error { return l.Save(ctx, start) },
	"begin": func(ctx context.Context, l store.Log) error { return l.Begin(ctx, start.At.Log, store.Image{}) },
}

// obeyed is how long a call may go on when its context has ended.
const obeyed = 50 * time.Millisecond

// A context that ends, by its deadline or otherwise, ends the call, also of a client that heeds no
// contexts and while the server stands still. An append of a client that heeds deadlines ends by
// that alone.
func TestContextsAreObeyed(t *testing.T) {
	server := redistest.Start(t)
	for _, heeds := range []bool{true, false} {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: heeds})
		t.Cleanup(func() { client.Close() })
		l := begun(t, client, Options{}, 0)
		server.Pause()
		for name, call := range calls {
			for _, cancels := range []bool{true, false} {
				if cancels && heeds && name == "append" {
					continue
				}
				took := time.Hour
				for range 3 { // the machine may be busy
					took = min(took, tookLonger(t, cancels, func(ctx context.Context) error { return call(ctx, l) }))
				}
				if took > obeyed {
					t.Errorf("%s, of a client that heeds deadlines %v: goes on for %v after its context (cancelled: %v)", name, heeds, took, cancels)
				}
			}
		}
		server.Resume()
	}
}

// tookLonger returns how long a call takes longer than its context.
func tookLonger(t *testing.T, cancels bool, call func(context.Context) error) time.Duration {
	t.Helper()
	const lasts = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	if cancels {
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(lasts, cancel)
	}
	defer cancel()
	began := time.Now()
	if err := call(ctx); err == nil {
		t.Error("a call of a server that stands still has no error")
	}
	return time.Since(began) - lasts
}

// Without a context that ends a call waits for Options.Timeout, and Close ends it at once; but an
// append of a client that heeds deadlines waits for that.
func TestTimeoutAndClose(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	const timeout = 300 * time.Millisecond
	s, err := New(t.Context(), clientOf(t, proxy.Addr()), Options{Prefix: "test", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Open(t.Context(), store.Options{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(t.Context(), 0, start); err != nil {
		t.Fatal(err)
	}
	proxy.Set(redistest.Faults{Swallow: true})
	for name, call := range calls {
		began := time.Now()
		err := call(t.Context(), l)
		if took := time.Since(began); err == nil || took < timeout || took > 4*timeout {
			t.Errorf("%s: error %v after %v", name, err, took)
		}
	}
	swallowed, done, appended := proxy.Counts().Swallowed, make(chan error, len(calls)), make(chan error, 1)
	for name, call := range calls {
		go func() {
			if err := call(t.Context(), l); name == "append" {
				appended <- err
			} else if !errors.Is(err, errClosed) {
				done <- fmt.Errorf("%s: error %w", name, err)
			} else {
				done <- nil
			}
		}()
	}
	redistest.Eventually(t, "all are under way", func() bool { return int(proxy.Counts().Swallowed-swallowed) >= len(calls) })
	l.Close()
	for range len(calls) - 1 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(timeout / 2):
			t.Fatal("a call outlasts its log")
		}
	}
	select {
	case err := <-appended:
		if err == nil {
			t.Error("an append to a closed log has no error")
		}
	case <-time.After(2 * timeout):
		t.Fatal("an append outlasts its timeout")
	}
}

// A client whose connecting heeds no context, as go-redis does it with TLS, makes no call wait for
// the reason why it had no answer.
func TestConnectingStandsStill(t *testing.T) {
	server := redistest.Start(t)
	var stands atomic.Bool
	goesOn := make(chan struct{})
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ContextTimeoutEnabled: true,
		Dialer: func(_ context.Context, network, address string) (net.Conn, error) {
			if stands.Load() {
				<-goesOn
			}
			return net.Dial(network, address)
		},
	})
	t.Cleanup(func() { client.Close() })
	const timeout = 300 * time.Millisecond
	l := begun(t, client, Options{Timeout: timeout}, 0)
	stands.Store(true)
	server.Pause()
	time.AfterFunc(10*timeout, func() { close(goesOn) })
	began := time.Now()
	_, err := l.Append(t.Context(), start.At, oneEntry(1))
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*timeout {
		t.Errorf("error %v after %v", err, took)
	}
	server.Resume()
}
