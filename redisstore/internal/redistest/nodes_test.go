package redistest_test

import (
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

func TestClusterFailsOverAndMoves(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	client := c.Client()
	set := func(want string) {
		t.Helper()
		redistest.Eventually(t, "a write", func() bool { return client.Set(t.Context(), "{a}1", want, 0).Err() == nil })
		if got, err := client.Get(t.Context(), "{a}1").Result(); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	set("begin")
	was, replica := c.Of("{a}1")
	c.Failover("{a}1")
	if master, _ := c.Of("{a}1"); master != replica {
		t.Errorf("the master is %s, want %s", master.Addr(), replica.Addr())
	}
	set("after the failover")
	c.AwaitHealth()

	if err := client.Set(t.Context(), "{a}2", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	m := c.BeginMove("{a}1")
	if n := m.Keys(1); n != 1 {
		t.Errorf("%d keys moved, want 1", n)
	}
	if err := replica.Client().MGet(t.Context(), "{a}1", "{a}2").Err(); err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
		t.Errorf("in the middle of a move: %v, want TRYAGAIN", err)
	}
	if err := replica.Client().Get(t.Context(), "{a}3").Err(); err == nil || !strings.HasPrefix(err.Error(), "ASK") {
		t.Errorf("in the middle of a move: %v, want ASK", err)
	}
	set("in the middle")
	m.End()
	if err := replica.Client().Get(t.Context(), "{a}1").Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("after a move: %v, want MOVED", err)
	}
	set("after the move")

	if was.Do("ROLE").([]any)[0] != "slave" {
		t.Error("the old master is none of the replicas")
	}
	killed := c.FailoverByKill("{a}1")
	set("after the kill")
	killed.RestartEmpty()
	c.AwaitHealth()
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t)
	set := func(want string) {
		t.Helper()
		redistest.Eventually(t, "a write", func() bool { return w.Client().Set(t.Context(), "k", want, 0).Err() == nil })
		if got := w.Master().Do("GET", "k"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	set("begin")
	killed := w.Failover()
	if w.Master() == killed {
		t.Error("the master is the one that was killed")
	}
	set("after the failover")
}
