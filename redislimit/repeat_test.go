package redislimit_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// A repeated operation charges once and gets the same answer, also when others have charged
// meanwhile. A refused one leaves no trace, and is decided anew.
func TestOperationCountsOnce(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		for kind, l := range kinds(s, redislimit.Options{}) {
			ctx := redislimit.WithOperation(t.Context(), "order 17")
			first, err := l.Take(ctx, kind, 60)
			if err != nil || !first.OK || first.Remaining != 40 {
				t.Fatalf("%s: first: %+v, %v", kind, first, err)
			}
			take(t, l, kind, 10)
			if again, err := l.Take(ctx, kind, 60); err != nil || again != first {
				t.Errorf("%s: again: %+v, %v, want %+v", kind, again, err, first)
			}
			if other, err := l.Take(ctx, kind+" other", 60); err != nil || !other.OK || other.Remaining != 40 {
				t.Errorf("%s: another key: %+v, %v", kind, other, err)
			}
			if d := take(t, l, kind, 0); d.Remaining != 30 {
				t.Errorf("%s: %d remain, want 30", kind, d.Remaining)
			}
			late := redislimit.WithOperation(t.Context(), "order 18")
			if d, err := l.Take(late, kind, 100); err != nil || d.OK {
				t.Errorf("%s: refused: %+v, %v", kind, d, err)
			}
			s.setTime(epoch.Add(5 * time.Minute))
			if d, err := l.Take(late, kind, 100); err != nil || !d.OK {
				t.Errorf("%s: a refused operation later: %+v, %v", kind, d, err)
			}
			s.setTime(epoch)
		}
	})
}

// The client sends a script again whose reply was lost on the way, and so does the caller. Nothing
// counts twice.
func TestLostRepliesChargeOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), ContextTimeoutEnabled: true, MaxRetries: 3, ReadTimeout: 5 * time.Second,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 2 * time.Millisecond,
	})
	t.Cleanup(func() { client.Close() })
	o := redislimit.Options{Timeout: patience}
	direct := standing{client: newClient(t, server.Addr())}
	for kind, l := range map[string]redislimit.Limiter{
		"fixed window":    must(redislimit.NewFixedWindow(client, 1_000_000, 24*time.Hour, o)),
		"sliding counter": must(redislimit.NewSlidingCounter(client, 1_000_000, 24*time.Hour, o)),
		"sliding log":     must(redislimit.NewSlidingLog(client, 1_000_000, 24*time.Hour, o)),
	} {
		proxy.Set(redistest.Faults{Close: 5, Half: 20, CloseRequest: 20})
		var all sync.WaitGroup
		var admitted atomic.Int64
		for worker := range 8 {
			all.Go(func() {
				for i := range 25 {
					ctx := redislimit.WithOperation(t.Context(), fmt.Sprint(worker, "/", i))
					for attempt := range 100 { // the client gives up, too, now and then
						if d, err := l.Take(ctx, "k", 1); err == nil && d.OK {
							admitted.Add(1)
							break
						} else if !errors.Is(err, redislimit.ErrUnavailable) || attempt == 99 {
							t.Errorf("%s: %+v, %v", kind, d, err)
						}
						time.Sleep(100 * time.Millisecond) // the breaker may be open
					}
				}
			})
		}
		all.Wait()
		proxy.Set(redistest.Faults{})
		var d limit.Decision
		redistest.Eventually(t, "the server is asked", func() (ok bool) {
			var err error
			d, err = l.Take(t.Context(), "k", 0)
			return err == nil
		})
		if d.Remaining != 1_000_000-200 || admitted.Load() != 200 {
			t.Errorf("%s: %d units are charged for %d calls, want 200", kind, 1_000_000-d.Remaining, admitted.Load())
		}
	}
	if c := proxy.Counts(); c.Closed+c.Halved < 25 {
		t.Errorf("only %d replies were lost", c.Closed+c.Halved)
	}
	if stats := direct.client.Info(t.Context(), "commandstats").Val(); !strings.Contains(stats, "cmdstat_evalsha") {
		t.Error("no EVALSHA was seen")
	}
}

// Many goroutines at a limit: exactly the limit passes, in one window.
func TestExactlyTheLimitPasses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Ahead(0))
	server.SetTime(epoch.Add(time.Second))
	for kind, l := range kinds(standing{client: newClient(t, server.Addr())}, redislimit.Options{}) {
		var all sync.WaitGroup
		var passed atomic.Int64
		for range 16 {
			all.Go(func() {
				for range 20 {
					if d, err := l.Take(t.Context(), kind, 1); err != nil {
						t.Error(err)
					} else if d.OK {
						passed.Add(1)
					}
				}
			})
		}
		all.Wait()
		if passed.Load() != 100 {
			t.Errorf("%s: %d pass, want 100", kind, passed.Load())
		}
	}
}
