package redislimit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// In a Cluster, keys spread over the masters, those of one tag go together, and a failover loses no
// more than what the replica did not have.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), ContextTimeoutEnabled: true, ClusterStateReloadInterval: 500 * time.Millisecond,
	})
	t.Cleanup(func() { client.Close() })
	o := redislimit.Options{Timeout: patience}
	all := []redislimit.Limiter{
		must(redislimit.NewFixedWindow(client, 100, 24*time.Hour, o)), must(redislimit.NewSlidingCounter(client, 100, 24*time.Hour, o)),
		must(redislimit.NewSlidingLog(client, 100, 24*time.Hour, o)), must(redislimit.NewTokenBucket(client, limit.Rate{Count: 1, Per: 24 * time.Hour}, 100, o)),
	}
	g := must(redislimit.NewGroup(client, o))
	for i := range 30 {
		for k, l := range all {
			if d := take(t, l, fmt.Sprint("user ", i), 1); !d.OK || d.Remaining != 99 {
				t.Errorf("limiter %d: %+v", k, d)
			}
		}
	}
	var charges []redislimit.Charge
	for i, l := range all {
		charges = append(charges, redislimit.Charge{Limiter: l, Key: fmt.Sprintf("{acme}%d", i), N: 10})
	}
	h, ds, err := g.HoldAll(t.Context(), charges...)
	if err != nil || h.ID() == "" {
		t.Fatalf("%+v, %v", ds, err)
	}
	if err := h.Commit(t.Context(), 5, 5, 5, 5); err != nil {
		t.Fatal(err)
	}
	charges[1].Key = "elsewhere"
	if _, err := g.TakeAll(t.Context(), charges...); !errors.Is(err, limit.ErrInvalid) {
		t.Errorf("keys of several slots: %v", err)
	}
	single := newClient(t, cluster.Servers[0].Addr())
	direct := must(redislimit.NewFixedWindow(single, 100, time.Hour, o))
	_, err = must(redislimit.NewGroup(single, o)).TakeAll(t.Context(),
		redislimit.Charge{Limiter: direct, Key: "a", N: 1}, redislimit.Charge{Limiter: direct, Key: "b", N: 1})
	if !errors.Is(err, limit.ErrInvalid) {
		t.Errorf("keys of several slots, with the client of one node: %v", err)
	}

	origin := must(redislimit.NewOrigin(client, "acme"))
	cell := keyed.Cell{Namespace: "requests", Key: "k", Window: time.Hour, Sequence: 7}
	if counts, err := origin.Add(t.Context(), keyed.Replay{Process: "p", Number: 1, Deltas: []keyed.Delta{{Cell: cell, Add: 3}}}); err != nil || counts[0] != 3 {
		t.Errorf("origin: %v, %v", counts, err)
	}
	exchange := must(redislimit.NewExchange(client, "acme"))
	if err := exchange.Push(t.Context(), []keyed.Row{{Cell: cell, Region: "eu", Count: 3}}); err != nil {
		t.Error(err)
	}
	if rows, _, err := exchange.Pull(t.Context(), ""); err != nil || len(rows) != 1 {
		t.Errorf("exchange: %v, %v", rows, err)
	}

	cluster.AwaitHealth()
	cluster.FailoverByKill("{acme}")
	for i, l := range all {
		redistest.Eventually(t, "an answer after the failover", func() bool {
			d, err := l.Take(t.Context(), fmt.Sprintf("{acme}%d", i), 0)
			return err == nil && d.Remaining == 95
		})
	}
}
