package redislimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// The rights that docs/serving.md names.
const (
	limiterRights  = "+evalsha +eval +time +get +set +psetex +pexpire +del +lindex +lset +llen +lrange +ltrim +rpush"
	originRights   = "+mget +incrby"
	exchangeRights = "+exists +hset +hget +hdel +hincrby +zadd +zrem +zrangebyscore +pttl"
)

// The package runs no other commands than those, and touches no keys but its own.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	args := []any{"ACL", "SETUSER", "limits", "on", "nopass", "resetkeys", "~{acme*", "-@all", "+hello", "+client"}
	for _, right := range strings.Fields(limiterRights + " " + originRights + " " + exchangeRights) {
		args = append(args, right)
	}
	server.Do(args...)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "limits", ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	s := standing{client: client}
	of, g := kinds(s, redislimit.Options{}), newGroup(s)
	for range 3 {
		for _, l := range of {
			take(t, l, "acme", 30)
			take(t, l, "acme", 1000)
		}
		h, _, err := g.HoldAll(t.Context(), charges(of, "acme-group", 10, 10, 10, 10)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Commit(t.Context(), 5, 15, 5, 15); err != nil {
			t.Fatal(err)
		}
	}
	short := must(redislimit.NewSlidingLog(client, 100, 20*time.Millisecond, redislimit.Options{Timeout: patience}))
	for range 10 { // entries leave
		take(t, short, "acme", 1)
		time.Sleep(4 * time.Millisecond)
	}
	cell := keyed.Cell{Namespace: "n", Key: "k", Window: time.Minute, Sequence: 1}
	origin := must(redislimit.NewOrigin(client, "acme"))
	if _, err := origin.Add(t.Context(), keyed.Replay{Process: "p", Number: 1, Deltas: []keyed.Delta{{Cell: cell, Add: 1<<63 - 1}}}); err != nil {
		t.Error(err)
	}
	if _, err := origin.Add(t.Context(), keyed.Replay{Process: "p", Number: 2, Deltas: []keyed.Delta{{Cell: cell, Add: 1}}}); err != nil {
		t.Error(err)
	}
	if _, err := origin.Read(t.Context(), []keyed.Cell{cell}); err != nil {
		t.Error(err)
	}
	exchange := must(redislimit.NewExchange(client, "acme"))
	if err := exchange.Push(t.Context(), []keyed.Row{{Cell: cell, Region: "eu", Count: 5}}); err != nil {
		t.Error(err)
	}
	if rows, _, err := exchange.Pull(t.Context(), ""); err != nil || len(rows) != 1 {
		t.Error(rows, err)
	}
}

// The units ever charged to a log wrap around at 2^52, and nothing is lost by that.
func TestLogWrapsAround(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g := newGroup(s)
		l := must(redislimit.NewSlidingLog(s.client, 100, time.Minute, redislimit.Options{Timeout: patience}))
		const wrap = 1 << 52
		state := "{k}:ratelimit:1:l:60000000"
		for i, before := range []int64{wrap - 30, wrap - 10} {
			at := epoch.Add(time.Duration(i) * time.Second).UnixMicro()
			if err := s.client.RPush(t.Context(), state, fmt.Sprintf("%d %d %d", at, before, (before+20)%wrap)).Err(); err != nil {
				t.Fatal(err)
			}
		}
		s.setTime(epoch.Add(10 * time.Second))
		h, ds, err := g.HoldAll(t.Context(), redislimit.Charge{Limiter: l, Key: "k", N: 50})
		if err != nil || !ds[0].OK || ds[0].Remaining != 10 {
			t.Fatalf("%+v, %v", ds, err)
		}
		for _, r := range []row{
			{10 * s1, 11, false, 10, 60 * s1, 50 * s1, 0},
			{10 * s1, 31, false, 10, 60 * s1, 51 * s1, 0},
			{10 * s1, 51, false, 10, 60 * s1, 60 * s1, 0},
			{60 * s1, 0, true, 30, 10 * s1, 0, 0},
			{61 * s1, 0, true, 50, 9 * s1, 0, 0},
		} {
			checkRows(t, s, l, "k", []row{r})
		}
		if err := h.Commit(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if d := take(t, l, "k", 0); d.Remaining != 93 {
			t.Errorf("%+v", d)
		}
	})
}
