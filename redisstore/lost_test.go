// A server that has lost something: flushed, evicted, replaced, or behind after a failover.

package redisstore_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// keys returns the keys of the prefix on a server.
func keys(t testing.TB, client redis.UniversalClient, prefix string) []string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "{"+prefix+"}*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// losses are the ways in which a server has less than it had.
var losses = []struct {
	name string
	lose func(*testing.T, *redistest.Server, *redistest.Proxy)
}{
	{"FLUSHALL", func(_ *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Do("FLUSHALL") }},
	{"restart without its data", func(_ *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.RestartEmpty() }},
	{"another server", func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) {
		p.Retarget(redistest.Start(t).Addr())
	}},
	{"eviction of log", evict("log")},
	{"eviction of meta", evict("meta")},
	{"eviction of end", evict("end")},
}

func evict(key string) func(*testing.T, *redistest.Server, *redistest.Proxy) {
	return func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
		t.Helper()
		name := keyOf(key)
		if key == "image" {
			all := keys(t, s.Client(), prefix)
			name = all[slices.IndexFunc(all, func(key string) bool { return strings.Contains(key, ":image:") })]
		}
		if n := s.Do("DEL", name); n != int64(1) {
			t.Errorf("there is no key %s: the server has %v", key, keys(t, s.Client(), prefix))
		}
	}
}

// The living write back what they know: charges, calls in flight, cooldowns, quotas, and also what
// a limiter has charged that is closed.
func TestLossIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			quotas := map[string]ratelimit.ModelQuota{model: plenty[model], "cooled": {MaxRPM: 5}}
			m := machine{addr: proxy.Addr(), limiter: ratelimit.Config{Quotas: quotas}}
			one, two, gone := m.start(t), m.start(t), m.start(t)
			var a admitted
			a.work(one, 1, 30)
			a.work(two, 1, 20)
			a.work(gone, 1, 10)
			held := a.reserve(two, 7)
			until := time.Now().Add(time.Hour)
			one.Cooldown("cooled", until)
			one.SetQuota("set", ratelimit.ModelQuota{MaxRPM: 3})
			awaitSum(t, &a, one, two)
			if err := gone.Close(); err != nil {
				t.Fatal(err)
			}

			loss.lose(t, server, proxy)
			a.work(two, 4, 40)
			a.work(one, 4, 20)
			held.Commit(3, 0)
			a.tokens.Add(3 - 7)
			fresh := machine{addr: proxy.Addr(), limiter: ratelimit.Config{Quotas: quotas}}.start(t)
			awaitStore(t, one)
			awaitStore(t, two)
			awaitSum(t, &a, one, two, fresh)
			for i, rl := range []*ratelimit.RateLimiter{one, two, fresh} {
				if d := rl.Decide("cooled", 1); d.Code != ratelimit.DecisionCooldown || d.RetryAfter < 59*time.Minute {
					t.Errorf("limiter %d: the cooldown is %q for %v", i, d.Code, d.RetryAfter)
				}
				if _, q, ok := rl.QuotaFor("set"); !ok || q.MaxRPM != 3 {
					t.Errorf("limiter %d: the quota is %+v, %v", i, q, ok)
				}
				if n := rl.Stats(model).InFlight; n != 0 {
					t.Errorf("limiter %d: %d calls in flight", i, n)
				}
			}
		})
	}
}

// awaitSum waits until limiters count what was admitted, and fails the test if they do not soon.
func awaitSum(t testing.TB, a *admitted, limiters ...*ratelimit.RateLimiter) {
	t.Helper()
	for i, rl := range limiters {
		stats := rl.Stats(model)
		for began := time.Now(); (!a.isInMinute(stats) || dayOf(stats) != a.sum()) && time.Since(began) < slack; {
			stats = rl.Stats(model)
		}
		if !a.isInMinute(stats) || dayOf(stats) != a.sum() {
			t.Errorf("limiter %d of %d counts %+v in the minute and %+v in the day, want %+v",
				i+1, len(limiters), minuteOf(stats), dayOf(stats), a.sum())
		}
	}
}

// A call in flight keeps its slot when the server has lost it.
func TestLossKeepsSlots(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := machine{addr: server.Addr(), limiter: ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{model: {MaxInFlight: 2}},
	}}
	one, two := m.start(t), m.start(t)
	a, _ := one.Reserve(model, 1, 0)
	b, _ := two.Reserve(model, 1, 0)
	if a == nil || b == nil {
		t.Fatal("no slots")
	}
	redistest.Eventually(t, "both know of both", func() bool {
		return one.Stats(model).InFlight == 2 && two.Stats(model).InFlight == 2
	})
	server.Do("FLUSHALL")
	for i, rl := range []*ratelimit.RateLimiter{one, two, m.start(t)} {
		if _, d := rl.Reserve(model, 1, 0); d.Code != ratelimit.DecisionInFlightLimit {
			t.Errorf("limiter %d: %q after the loss, want %q", i, d.Code, ratelimit.DecisionInFlightLimit)
		}
	}
	a.Commit(1, 0)
	if r, d := two.Reserve(model, 1, 0); r == nil {
		t.Errorf("the slot is not free: %q", d.Code)
	}
	runtime.KeepAlive(b) // what the program drops is settled
}

// Where a log was lost and nobody is alive who knows it, the minute counts as used up, and as long
// as a lease beyond it, unless FreshStart says otherwise.
func TestLossWithoutSurvivors(t *testing.T) {
	t.Parallel()
	for i, fresh := range []bool{false, true, false, true} {
		same := i < 2
		t.Run(fmt.Sprintf("FreshStart %v, the same Store: %v", fresh, same), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			var store *redisstore.Store
			start := func() *ratelimit.RateLimiter {
				t.Helper()
				var err error
				if store == nil || !same {
					store, err = redisstore.New(t.Context(), clientOf(t, server.Addr()), redisstore.Options{Prefix: prefix})
				}
				if err != nil {
					t.Fatal(err)
				}
				rl, err := ratelimit.NewWithConfig(ratelimit.Config{
					Store: store, FreshStart: fresh, Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPM: 10}},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { rl.Close() })
				return rl
			}
			first := start()
			if _, d := first.Reserve(model, 1, 0); !d.Allowed {
				t.Errorf("a new store denies with %q", d.Code)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			server.Do("FLUSHALL")
			_, d := start().Reserve(model, 1, 0)
			if d.Allowed != fresh || !fresh && (d.RetryAfter <= 50*time.Second || d.RetryAfter > 71*time.Second) {
				t.Errorf("after the loss: %v %q, for %v", d.Allowed, d.Code, d.RetryAfter)
			}
		})
	}
}

// What the server has only a part of is lost, too, whoever opens it then. Without the end of the
// log it has all.
func TestPartOfALogWithoutSurvivors(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"log", "meta", "end", "image"} {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, FreshStart %v", key, fresh), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				m := machine{addr: server.Addr(), limiter: tenAMinute}
				m.limiter.FreshStart = fresh
				first := m.start(t)
				useTen(first)
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				evict(key)(t, server, nil)
				second := m.start(t)
				if n := second.Stats(model).RPM; key == "end" && n != 10 {
					t.Errorf("after the loss %d of 10 are used", n)
				}
				if _, d := second.Reserve(model, 1, 0); d.Allowed != (fresh && key != "end") {
					t.Errorf("after the loss: %v %q, for %v", d.Allowed, d.Code, d.RetryAfter)
				}
			})
		}
	}
}

// A limiter that nobody calls knows what the server has only a part of, and a newcomer hears it.
func TestPartOfALogWithASurvivor(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"log", "meta", "end", "image"} {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, FreshStart %v", key, fresh), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				m := machine{addr: server.Addr(), limiter: tenAMinute}
				m.limiter.FreshStart = fresh
				first := m.start(t)
				useTen(first)
				if err := first.Persist(); err != nil {
					t.Fatal(err)
				}
				redistest.Eventually(t, "the limiter waits for news", func() bool {
					return strings.Contains(server.Client().Info(t.Context(), "clients").Val(), "blocked_clients:1")
				})
				evict(key)(t, server, nil)
				began := time.Now()
				second := m.start(t)
				t.Logf("opened after %v", time.Since(began))
				for i, rl := range []*ratelimit.RateLimiter{second, first} {
					if _, d := rl.Reserve(model, 1, 0); d.Allowed || rl.Stats(model).RPM != 10 {
						t.Errorf("limiter %d after the loss: %v %q, %d of 10 used", i, d.Allowed, d.Code, rl.Stats(model).RPM)
					}
				}
			})
		}
	}
}

// What the image has outlasts the log: of a limit of a day no more is forgotten than was behind it.
func TestImageWithoutALogWithoutSurvivors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPD: 100}}}}
	first := m.start(t)
	useTen(first)
	if err := first.Persist(); err != nil {
		t.Fatal(err)
	}
	server.Do("FLUSHALL") // the limiter begins it anew with an image of the ten
	redistest.Eventually(t, "all keys are there again", func() bool { return len(keys(t, server.Client(), prefix)) >= keysOfPrefix })
	first.RecordUsage(model, 1, 0)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	evict("log")(t, server, nil)
	second := m.start(t)
	if _, d := second.Reserve(model, 1, 0); d.Allowed || second.Stats(model).RPD != 10 {
		t.Errorf("after the loss: %v %q, %d of 10 used in the day", d.Allowed, d.Code, second.Stats(model).RPD)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	evict("log")(t, server, nil)
	m.limiter.FreshStart = true
	if third := m.start(t); third.Stats(model).RPD != 0 {
		t.Errorf("with FreshStart %d of 0 used in the day", third.Stats(model).RPD)
	}
}

var tenAMinute = ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPM: 10}}}

func useTen(rl *ratelimit.RateLimiter) {
	for range 10 {
		rl.RecordUsage(model, 1, 0)
	}
}

// What keeps programs of the layout before out is restored by whoever opens the prefix next, and
// its loss is none of the log.
func TestPartOfTheGuard(t *testing.T) {
	t.Parallel()
	names := []string{"log", "meta", "days", "quotas", "cooldowns", "answers", "procs", "holes", "found", "spend", "pools"}
	for _, lost := range append(slices.Clone(names), "days meta") {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			var reported errorLog
			m := machine{addr: server.Addr(), limiter: tenAMinute}
			m.limiter.OnError = reported.add
			guard := func() (is []any) {
				for _, name := range names {
					key := "{" + prefix + "}:ratelimit:2:" + name
					is = append(is, server.Do("TYPE", key))
				}
				head, _ := server.Do("HGET", "{"+prefix+"}:ratelimit:2:meta", "head").(string)
				later, _, _ := strings.Cut(head, ".")
				return append(is, later, server.Do("HKEYS", "{"+prefix+"}:ratelimit:2:days"))
			}
			first := m.start(t)
			useTen(first)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			whole := guard()
			for _, name := range strings.Fields(lost) {
				server.Do("DEL", "{"+prefix+"}:ratelimit:2:"+name)
			}
			if reflect.DeepEqual(guard(), whole) {
				t.Fatal("nothing was lost")
			}
			second := m.start(t)
			if is := guard(); !reflect.DeepEqual(is, whole) {
				t.Errorf("the guard is\n%q, want\n%q", is, whole)
			}
			if _, d := second.Reserve(model, 1, 0); d.Allowed || second.Stats(model).RPM != 10 {
				t.Errorf("the log was lost, too: %v, %d of 10 used", d.Allowed, second.Stats(model).RPM)
			}
			if err := second.Close(); err != nil || len(reported.list()) > 0 {
				t.Errorf("close: %v, reported: %v", err, reported.list())
			}
		})
	}
}

// failedOver is a proxy before a server that has a replica.
type failedOver struct {
	master, replica *redistest.Server
	proxy           *redistest.Proxy
}

func replicated(t *testing.T) *failedOver {
	t.Helper()
	f := &failedOver{master: redistest.Start(t), replica: redistest.Start(t)}
	f.replica.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(f.master.Port()))
	redistest.Eventually(t, "the replica follows", func() bool {
		return f.replica.Do("ROLE").([]any)[3] == "connected"
	})
	f.proxy = redistest.NewProxy(t, f.master.Addr())
	return f
}

// cut ends the replication: what is written from now on, the failover loses.
func (f *failedOver) cut(t *testing.T) {
	t.Helper()
	redistest.Eventually(t, "the replica has everything", func() bool {
		master, replica := f.master.Do("ROLE").([]any), f.replica.Do("ROLE").([]any)
		return master[1] == replica[4]
	})
	f.replica.Do("REPLICAOF", "NO", "ONE")
}

func (f *failedOver) over() { f.proxy.Retarget(f.replica.Addr()) }

// The living write back what a failover has lost.
func TestFailoverLosesWrites(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{0, 1, 40} {
		for _, lost := range []int{0, 1, 300} {
			for _, after := range []int{1, 400} {
				t.Run(fmt.Sprintf("%d kept %d lost %d after", kept, lost, after), func(t *testing.T) {
					t.Parallel()
					f := replicated(t)
					one, two := limiterOf(t, f.proxy.Addr()), limiterOf(t, f.proxy.Addr())
					var a admitted
					a.work(one, 2, kept)
					f.cut(t)
					a.work(one, 2, lost)
					a.work(two, 2, lost)
					awaitSum(t, &a, one, two)
					f.over()
					a.work(two, 2, after)
					a.check(t, f.replica.Addr(), one, two)
				})
			}
		}
	}
}

// A limiter that nobody calls writes back what it knows, too.
func TestFailoverWithIdleLimiters(t *testing.T) {
	t.Parallel()
	f := replicated(t)
	one, two := limiterOf(t, f.proxy.Addr()), limiterOf(t, f.proxy.Addr())
	var a admitted
	f.cut(t)
	a.work(one, 2, 30)
	awaitSum(t, &a, one, two)
	f.over()
	newcomer := limiterOf(t, f.replica.Addr())
	redistest.Eventually(t, "the newcomer knows all", func() bool {
		stats := newcomer.Stats(model)
		return minuteOf(stats) == a.sum() && dayOf(stats) == a.sum()
	})
}

// Others write to the new master before those come who know what is lost.
func TestFailoverWithNewcomers(t *testing.T) {
	t.Parallel()
	f := replicated(t)
	one, two := limiterOf(t, f.proxy.Addr()), limiterOf(t, f.proxy.Addr())
	var a admitted
	a.work(one, 2, 40)
	f.cut(t)
	a.work(one, 2, 30)
	a.work(two, 2, 30)
	awaitSum(t, &a, one, two)
	newcomer := limiterOf(t, f.replica.Addr())
	a.work(newcomer, 2, 100) // more than was lost: their places are taken
	f.over()
	a.work(one, 2, 20)
	a.check(t, f.replica.Addr(), one, two, newcomer)
}

// What only a limiter knew that is gone is lost with the writes, and nothing else is.
func TestFailoverLosesWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	f := replicated(t)
	gone := limiterOf(t, f.proxy.Addr())
	var a, lost admitted
	a.work(gone, 2, 40)
	f.cut(t)
	lost.work(gone, 2, 30)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	f.over()
	rl := limiterOf(t, f.proxy.Addr())
	a.work(rl, 2, 20)
	a.check(t, f.replica.Addr(), rl)
}

// WaitReplicas loses nothing that was admitted, and says when the replicas are behind.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	f := replicated(t)
	var reported errorLog
	rl := machine{addr: f.proxy.Addr(), store: redisstore.Options{WaitReplicas: 1, Timeout: slack},
		limiter: ratelimit.Config{OnError: reported.add}}.start(t)
	var a admitted
	a.work(rl, 2, 50)
	if all := reported.list(); len(all) > 0 {
		t.Errorf("reported: %v", all)
	}
	master, replica := f.master.Do("ROLE").([]any)[1].(int64), f.replica.Do("ROLE").([]any)[4].(int64)
	if entries := f.replica.Do("XLEN", keyOf("log")); entries != f.master.Do("XLEN", keyOf("log")) {
		t.Errorf("the replica is at %d of %d, and has %d entries", replica, master, entries)
	}
	f.replica.Pause()
	a.work(rl, 1, 1)
	if a.denied.Load() > 0 {
		t.Errorf("%d denied while the replica is behind", a.denied.Load())
	}
	redistest.Eventually(t, "a report of the replica", func() bool { return reported.has("replica") })
	f.replica.Resume()
	a.check(t, f.master.Addr(), rl)
}
