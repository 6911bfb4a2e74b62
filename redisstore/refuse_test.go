// Errors of a server that runs: nothing is half-written, nothing charged twice, no call hangs.

package redisstore_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// refusals are the ways in which a server refuses to write.
var refusals = []struct {
	name, told string // told is what Err says
	begin      func(*testing.T, *redistest.Server)
	end        func(*testing.T, *redistest.Server)
}{
	{"OOM", "OOM", func(_ *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
		func(_ *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "0") }},
	{"READONLY", "READONLY", func(_ *testing.T, s *redistest.Server) {
		s.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(s.Port()+1)) // where nobody is
	}, func(_ *testing.T, s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") }},
	{"MASTERDOWN", "MASTERDOWN", func(_ *testing.T, s *redistest.Server) {
		s.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
		s.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(s.Port()+1))
	}, func(_ *testing.T, s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") }},
	{"MISCONF", "MISCONF", misconfigure, func(_ *testing.T, s *redistest.Server) {
		s.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	}},
	{"NOREPLICAS", "NOREPLICAS", func(_ *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") },
		func(_ *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "0") }},
	{"NOPERM", "can't run this command", func(_ *testing.T, s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "-xadd") },
		func(_ *testing.T, s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "+xadd") }},
}

// misconfigure has a server fail to save, so that it refuses to write.
func misconfigure(t *testing.T, s *redistest.Server) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "dir", dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "save", "3600 1")
	s.Do("BGSAVE")
	redistest.Eventually(t, "the save fails", func() bool {
		return strings.Contains(s.Client().Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		for _, failClosed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, FailClosed %v", r.name, failClosed), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Config("enable-protected-configs yes"))
				var reported errorLog
				m := machine{addr: server.Addr(), limiter: ratelimit.Config{FailClosed: failClosed, OnError: reported.add}}
				one, two := m.start(t), m.start(t)
				var a admitted
				a.work(one, 2, 30)
				held := a.reserve(two, 7)
				awaitSum(t, &a, one, two)

				r.begin(t, server)
				began := time.Now()
				before := a.sum()
				// A replica without its master refuses to be read, too.
				if d := one.Decide(model, 1); !d.Allowed && !(failClosed && r.name == "MASTERDOWN") {
					t.Errorf("before a write is refused, Decide answers %q", d.Code)
				}
				a.work(one, 4, 20)
				a.work(two, 4, 20)
				held.Commit(3, 0)
				a.tokens.Add(3 - 7)
				if took := time.Since(began); took > hung {
					t.Errorf("48 calls take %v", took)
				}
				if one.Err() == nil {
					t.Error("Err is nil")
				}
				if denied := a.denied.Load() > 0; denied != failClosed {
					t.Errorf("%d denied, and %+v admitted since %+v", a.denied.Load(), a.sum(), before)
				}
				// A busy machine tells of a time that was over, and of nothing else in that outage.
				redistest.Eventually(t, "OnError was told, and Err says "+r.told, func() bool {
					return len(reported.list()) > 0 && answers(one.Err(), r.told)
				})
				r.end(t, server)
				a.check(t, server.Addr(), one, two)
			})
		}
	}
}

// answers reports whether an error says what the server answered, in its text and to errors.As.
func answers(err error, text string) bool {
	var answer redis.Error
	return errors.As(err, &answer) && strings.Contains(err.Error(), text) && strings.Contains(answer.Error(), text)
}

// A server that loads its data answers soon.
func TestLoading(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config("loading-process-events-interval-bytes 1024"))
	one, two := limiterOf(t, server.Addr()), limiterOf(t, server.Addr())
	var a admitted
	a.work(one, 2, 30)
	awaitSum(t, &a, one, two)
	pipe := server.Client().Pipeline()
	for i := range 200 {
		pipe.Set(t.Context(), fmt.Sprint("filler ", i), strings.Repeat("x", 2000), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Do("SAVE")
	server.Kill()
	server.SetConfig("key-load-delay 5000") // microseconds a key
	loading := server.RestartLoading()
	began := time.Now()
	a.work(one, 2, 20)
	a.work(two, 2, 20)
	if took := time.Since(began); took > hung {
		t.Errorf("40 calls take %v", took)
	}
	if !loading() {
		t.Log("the server had loaded everything before the calls were over")
	}
	a.check(t, server.Addr(), one, two)
}

// clusterLimiter returns a limiter with a client of a Cluster.
func clusterLimiter(t testing.TB, c *redistest.Nodes, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	client := redis.NewClusterClient(c.Options())
	t.Cleanup(func() { client.Close() })
	return machine{client: client, limiter: cfg}.start(t)
}

// checkCluster is admitted.check for a Cluster.
func (a *admitted) checkCluster(t testing.TB, c *redistest.Nodes, limiters ...*ratelimit.RateLimiter) {
	t.Helper()
	for _, rl := range limiters {
		awaitStore(t, rl)
	}
	awaitSum(t, a, append(limiters, clusterLimiter(t, c, ratelimit.Config{}))...)
}

// While a slot moves from one master to another the answers are ASK, TRYAGAIN and MOVED, and
// nothing is lost or charged twice.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	one, two := clusterLimiter(t, c, ratelimit.Config{}), clusterLimiter(t, c, ratelimit.Config{})
	var a admitted
	a.work(one, 2, 30)
	log := c.Client().HGet(t.Context(), keyOf("meta"), "log").Val()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, rl := range []*ratelimit.RateLimiter{one, two} {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // so that the other tests have the machine, too
					a.call(rl, i)
				}
			}
		})
	}
	for range times(2, 50) {
		move := c.BeginMove("{" + prefix + "}")
		for range 3 {
			move.Keys(2)
			before := a.sum()
			redistest.Eventually(t, "calls in the middle of the move", func() bool { return a.sum().requests > before.requests+5 })
		}
		move.End()
		before := a.sum()
		redistest.Eventually(t, "calls after the move", func() bool { return a.sum().requests > before.requests+20 })
	}
	close(stop)
	all.Wait()
	a.checkCluster(t, c, one, two)
	if is := c.Client().HGet(t.Context(), keyOf("meta"), "log").Val(); is != log {
		t.Errorf("log %q was taken for lost, and is %q now", log, is)
	}
	t.Logf("%+v, %d denied", a.sum(), a.denied.Load())
}

// A failover that was asked for loses nothing.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	one, two := clusterLimiter(t, c, ratelimit.Config{}), clusterLimiter(t, c, ratelimit.Config{})
	var a admitted
	for range times(2, 50) {
		a.work(one, 2, 20)
		a.work(two, 2, 20)
		c.Failover("{" + prefix + "}")
		a.work(one, 2, 20)
		a.work(two, 2, 20)
		a.checkCluster(t, c, one, two)
		c.AwaitHealth()
	}
}

// A Cluster whose master was killed answers CLUSTERDOWN until its replica has taken over.
func TestClusterMasterKilled(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	one, two := clusterLimiter(t, c, ratelimit.Config{}), clusterLimiter(t, c, ratelimit.Config{FailClosed: true})
	var a admitted
	a.work(one, 2, 20)
	a.work(two, 2, 20)
	awaitSum(t, &a, one, two)
	killed := c.FailoverByKill("{" + prefix + "}")
	began := time.Now()
	a.work(one, 2, 10)
	a.work(two, 2, 10)
	if took := time.Since(began); took > hung {
		t.Errorf("20 calls take %v", took)
	}
	a.checkCluster(t, c, one, two)
	t.Logf("the client has found the new master after %v", time.Since(began))
	killed.RestartEmpty()
}

// Sentinel's failover loses nothing that the living know.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t)
	var limiters []*ratelimit.RateLimiter
	for range 2 {
		client := redis.NewFailoverClient(w.Options())
		t.Cleanup(func() { client.Close() })
		limiters = append(limiters, machine{client: client}.start(t))
	}
	var a admitted
	rounds := times(1, 50)
	for round := range rounds {
		for _, rl := range limiters {
			a.work(rl, 2, 50)
		}
		awaitSum(t, &a, limiters...)
		killed := w.Failover()
		began := time.Now()
		for _, rl := range limiters {
			a.work(rl, 2, 20)
		}
		if took := time.Since(began); took > hung {
			t.Errorf("40 calls take %v", took)
		}
		a.check(t, w.Master().Addr(), limiters...)
		t.Logf("the sum is complete %v after the failover", time.Since(began))
		if round < rounds-1 {
			killed.RestartEmpty()
			w.AwaitReplicas(2)
		}
	}
}
