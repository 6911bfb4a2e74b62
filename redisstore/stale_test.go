// What a limiter answers from memory, and what it leaves behind.

package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// A connection that was silent for a while is given up: calls go on by another one, and what only
// reads does not answer from old memory.
func TestConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	m := machine{addr: proxy.Addr(), limiter: ratelimit.Config{FailClosed: true}}
	one, two := m.start(t), limiterOf(t, server.Addr())
	var a admitted
	a.work(one, 4, 20)
	awaitSum(t, &a, one, two)
	proxy.Set(redistest.Faults{Swallow: true})
	one.Reserve(model, 1, 0) // is swallowed, too
	redistest.Eventually(t, "requests are swallowed", func() bool { return proxy.Counts().Swallowed > 2 })
	proxy.Set(redistest.Faults{})
	began := time.Now()
	a.work(two, 2, 30)
	awaitStore(t, one)
	awaitSum(t, &a, one)
	if took := time.Since(began); took > hung {
		t.Errorf("the limiter sees what others did after %v", took)
	}
	a.work(one, 4, 20)
	a.check(t, server.Addr(), one, two)
}

// Memory that is older than MaxStale is not asked: while the reader's connection is delayed, what
// only reads is still exact as of MaxStale ago.
func TestReadsAreAsFreshAsMaxStale(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const maxStale = 50 * time.Millisecond
	m := machine{addr: server.Addr(), store: redisstore.Options{MaxStale: maxStale}}
	one, two := m.start(t), m.start(t)
	var a admitted
	for range times(12, 1000) {
		a.work(one, 1, 1)
		written := time.Now()
		for minuteOf(two.Stats(model)) != a.sum() {
			if old := time.Since(written); old > maxStale+slack {
				t.Fatalf("another limiter does not see a charge %v after it", old)
			}
		}
	}
}

// A client that does not heed deadlines makes no call wait, and its limiters say what to set.
func TestClientWithoutContextTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: time.Minute, DialTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	var reported errorLog
	rl := machine{client: client, limiter: ratelimit.Config{FailClosed: true, OnError: reported.add}}.start(t)
	redistest.Eventually(t, "a warning", func() bool { return reported.has("ContextTimeoutEnabled") })
	var a admitted
	a.work(rl, 4, 20)
	proxy.Set(redistest.Faults{Swallow: true})
	began := time.Now()
	if _, d := rl.Reserve(model, 1, 0); d.Code != ratelimit.DecisionStoreError {
		t.Errorf("%q while the server is silent", d.Code)
	}
	if took := time.Since(began); took > hung {
		t.Errorf("the answer took %v", took)
	}
	faultless(server, proxy)
	a.check(t, server.Addr(), rl)
}

// A server that may evict is named when a limiter opens the store.
func TestEvictionPolicyIsReported(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"noeviction", "allkeys-lru", "volatile-ttl"} {
		server := redistest.Start(t, redistest.Config("maxmemory-policy "+policy))
		var reported errorLog
		rl := machine{addr: server.Addr(), limiter: ratelimit.Config{OnError: reported.add}}.start(t)
		if policy != "noeviction" {
			redistest.Eventually(t, "a warning", func() bool { return reported.has(policy) && reported.has("noeviction") })
		}
		if err := rl.Close(); err != nil {
			t.Fatal(err)
		}
		if all := reported.list(); policy == "noeviction" && len(all) > 0 {
			t.Errorf("reported: %v", all)
		}
	}
}

// Of several warnings of an opening each is told.
func TestWarningsOfAnOpeningAreAllReported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config("maxmemory-policy allkeys-lru"))
	guest := aclUser(t, server, rights+" +hscan").Options()
	guest.ContextTimeoutEnabled = false
	for name, row := range map[string]struct {
		options *redis.Options
		want    []string
	}{
		"no deadlines, and it evicts": {&redis.Options{Addr: server.Addr()}, []string{"ContextTimeoutEnabled", "allkeys-lru"}},
		"no deadlines, and no INFO": {guest, []string{
			"ContextTimeoutEnabled", "has to be at least 6.2: NOPERM", "should be noeviction: NOPERM",
		}},
	} {
		client := redis.NewClient(row.options)
		t.Cleanup(func() { client.Close() })
		server.Do("FLUSHALL")
		// What an eviction has left of a log of the layout before.
		server.Do("HSET", "{"+prefix+"}:ratelimit:2:meta", "head", "1.1 0 0 0 0 0", "span", 0, "used", 0)
		row.want = append(row.want, "keys of the log of an earlier version are missing")
		var reported errorLog
		rl := machine{client: client, limiter: ratelimit.Config{OnError: reported.add}}.start(t)
		redistest.Eventually(t, "a warning", func() bool { return len(reported.list()) > 0 })
		if err := rl.Close(); err != nil {
			t.Fatal(err)
		}
		for _, want := range row.want {
			if !reported.has(want) {
				t.Errorf("%s: %q is not in what is reported: %q", name, want, reported.list())
			}
		}
	}
}

// A limiter that is closed leaves no blocked connection, and no slot. The
// client and the store stay usable.
func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := clientOf(t, server.Addr())
	store, err := redisstore.New(t.Context(), client, redisstore.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("a store that no limiter has opened has %v keys", n)
	}
	for range 3 {
		var all []*ratelimit.RateLimiter
		for range 3 {
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{Store: store, Quotas: plenty})
			if err != nil {
				t.Fatal(err)
			}
			if r, d := rl.Reserve(model, 1, 0); r == nil {
				t.Error(d.Reason)
			}
			all = append(all, rl)
		}
		for _, rl := range all {
			began := time.Now()
			if err := rl.Close(); err != nil || time.Since(began) > slack {
				t.Errorf("Close: %v after %v", err, time.Since(began))
			}
		}
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client does not work any more: %v", err)
	}
	redistest.Eventually(t, "nothing is blocked", func() bool {
		return strings.Contains(server.Client().Info(t.Context(), "clients").Val(), "blocked_clients:0")
	})
	if n := limiterOf(t, server.Addr()).Stats(model).InFlight; n != 0 {
		t.Errorf("%d slots are left", n)
	}
}
