package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// sharedServer returns the address of a redis-server, or of a miniredis where there is none.
func sharedServer(t *testing.T) string {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return miniredis.RunT(t).Addr()
	}
	return redistest.Start(t).Addr()
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	client := newClient(t, sharedServer(t))
	keyedtest.ExerciseOrigin(t, func(t *testing.T) keyed.Origin {
		return must(redislimit.NewOrigin(client, t.Name()))
	})
}

func TestExchange(t *testing.T) {
	t.Parallel()
	client := newClient(t, sharedServer(t))
	keyedtest.ExerciseExchange(t, func(t *testing.T) keyed.Exchange {
		return must(redislimit.NewExchange(client, t.Name()))
	})
}

// Who cancels a call in the background waits for no server that hangs.
func TestSharedCallsAreCancelled(t *testing.T) {
	t.Parallel()
	for _, heeds := range []bool{true, false} {
		server := redistest.Start(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: heeds})
		defer client.Close()
		origin, exchange := must(redislimit.NewOrigin(client, "o")), must(redislimit.NewExchange(client, "e"))
		server.Pause()
		defer server.Resume()
		for name, call := range map[string]func(context.Context) error{
			"read": func(ctx context.Context) error { _, err := origin.Read(ctx, make([]keyed.Cell, 1)); return err },
			"pull": func(ctx context.Context) error { _, _, err := exchange.Pull(ctx, ""); return err },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			time.AfterFunc(20*time.Millisecond, cancel)
			if err := call(ctx); !errors.Is(err, context.Canceled) || time.Since(began) >= time.Second { // the timeout
				t.Errorf("%s, client heeds contexts: %t: %v after %v", name, heeds, err, time.Since(began))
			}
		}
	}
}

// A replay in more pieces than one, of which the reply of each may be lost, counts once.
func TestLongReplayCountsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	origin := must(redislimit.NewOrigin(client, "long"))
	replay := keyed.Replay{Process: "p", Number: 1}
	for i := range 3500 {
		cell := keyed.Cell{Namespace: "n", Key: fmt.Sprint(i), Window: time.Minute, Sequence: 1}
		replay.Deltas = append(replay.Deltas, keyed.Delta{Cell: cell, Add: 2})
	}
	proxy.Set(redistest.Faults{Close: 3})
	for replay.Number = 1; replay.Number <= 5; replay.Number++ {
		var counts []int64
		redistest.Eventually(t, "the replay is acknowledged", func() (ok bool) {
			var err error
			counts, err = origin.Add(t.Context(), replay)
			return err == nil
		})
		for i, count := range counts {
			if count != 2*replay.Number {
				t.Fatalf("replay %d: cell %d is %d", replay.Number, i, count)
			}
		}
	}
}

// All that Origin and Exchange keep ends by itself, and a server that lost its memory makes the
// next Pull begin anew.
func TestSharedCountsEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Ahead(0))
	client := newClient(t, server.Addr())
	server.SetTime(epoch)
	cell := keyed.Cell{Namespace: "n", Key: "k", Window: time.Minute, Sequence: epoch.Unix() / 60}
	origin, exchange := must(redislimit.NewOrigin(client, "o")), must(redislimit.NewExchange(client, "e"))
	if _, err := origin.Add(t.Context(), keyed.Replay{Process: "p", Number: 1, Deltas: []keyed.Delta{{Cell: cell, Add: 1}}}); err != nil {
		t.Fatal(err)
	}
	push := func(key string, window time.Duration) {
		t.Helper()
		c := cell
		c.Key, c.Window = key, window
		if err := exchange.Push(t.Context(), []keyed.Row{{Cell: c, Region: "eu", Count: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	pull := func(cursor string, want int) string {
		t.Helper()
		rows, next, err := exchange.Pull(t.Context(), cursor)
		if err != nil || len(rows) != want {
			t.Errorf("%d rows after %q, %v, want %d", len(rows), cursor, err, want)
		}
		return next
	}
	push("long", time.Hour)
	push("short", time.Second)
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 7*24*time.Hour {
			t.Errorf("%s ends in %v", key, ttl)
		}
	}
	cursor := pull("", 2)
	server.SetTime(epoch.Add(10 * time.Minute))
	pull("", 1)
	if counts, err := origin.Read(t.Context(), []keyed.Cell{cell}); err != nil || counts[0] != 0 {
		t.Errorf("a cell of ten minutes ago: %d, %v", counts, err)
	}
	push("more", time.Hour)
	cursor = pull(cursor, 1)
	server.Do("FLUSHALL")
	pull(cursor, 0)
	server.SetTime(epoch.Add(11 * time.Minute))
	push("again", time.Hour)
	cursor = pull(cursor, 1)
	pull(cursor, 0)
	server.Do("DEL", "{e}:keyed:1:exchange:counts") // as an eviction does
	server.SetTime(epoch.Add(12 * time.Minute))
	push("more", time.Hour)
	pull(pull(cursor, 1), 0)
	server.SetTime(epoch.Add(24 * 7 * time.Hour).Add(time.Minute))
	redistest.Eventually(t, "all has ended", func() bool { return client.DBSize(t.Context()).Val() == 0 })
}
