package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
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

// reported collects errors.
type reported struct {
	mu  sync.Mutex
	all []error
}

func (r *reported) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

func (r *reported) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// What each mode does while the server is killed, and that it is as before when the server is back.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := standing{client: newClient(t, server.Addr())}
	for _, tt := range []struct {
		name    string
		failure redislimit.Failure
		passed  int // of 200 calls
		closed  bool
	}{
		{"closed", redislimit.FailClosed, 0, true},
		{"open", redislimit.FailOpen, 200, false},
		{"local", redislimit.Local(0.1), 10, false},
	} {
		var errs reported
		o := redislimit.Options{OnFailure: tt.failure, OnError: errs.add, Prefix: tt.name, Timeout: 50 * time.Millisecond}
		all := kindsIn(s, 35*365*24*time.Hour, o) // no cell of the calendar ends meanwhile
		g := must(redislimit.NewGroup(s.client, o))
		for kind, l := range all {
			redistest.Eventually(t, "the server answers", func() bool {
				d, err := l.Take(t.Context(), kind, 100)
				return err == nil && d.OK
			})
		}
		server.Kill()
		for kind, l := range all {
			passed := 0
			for range 200 {
				d, err := l.Take(t.Context(), kind, 1)
				if errors.Is(err, redislimit.ErrUnavailable) != tt.closed || err != nil && d != (limit.Decision{}) {
					t.Fatalf("%s, %s: %+v, %v", tt.name, kind, d, err)
				}
				if d.OK {
					passed++
				} else if err == nil && d.RetryAfter <= 0 {
					t.Fatalf("%s, %s: %+v", tt.name, kind, d)
				}
			}
			if slack := map[bool]int{true: 1}[kind == "token bucket"]; passed < tt.passed || passed > tt.passed+slack {
				t.Errorf("%s, %s: %d of 200 pass, want %d", tt.name, kind, passed, tt.passed)
			}
			if d, err := l.Take(t.Context(), kind, 101); err == nil && !d.Never {
				t.Errorf("%s, %s: more than the limit: %+v", tt.name, kind, d)
			}
			if d, err := l.Take(t.Context(), "other", 50); tt.failure == redislimit.Local(0.1) && (err != nil || d.OK || d.Never || d.RetryAfter <= 0) {
				t.Errorf("%s, %s: more than the share: %+v, %v", tt.name, kind, d, err)
			}
		}
		for range 12 {
			h, ds, err := g.HoldAll(t.Context(), charges(all, "group", 1, 1, 1, 1)...)
			id := h.ID()
			if id != "" || errors.Is(err, redislimit.ErrUnavailable) != tt.closed || len(ds) != map[bool]int{false: 4}[tt.closed] {
				t.Fatalf("%s: HoldAll: %q, %+v, %v", tt.name, id, ds, err)
			}
		}
		if errs.len() == 0 || errs.len() > 100 {
			t.Errorf("%s: %d errors are reported for 800 calls, want some, and none while the breaker is open", tt.name, errs.len())
		}
		server.RestartEmpty()
	}
}

// A server that hangs costs a call no longer than the timeout, and once the breaker is open
// nothing; when it is back, one call finds out.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	for _, heeds := range []bool{true, false} {
		t.Run(fmt.Sprintf("client heeds contexts: %t", heeds), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: heeds})
			defer client.Close()
			const timeout = 40 * time.Millisecond
			l := must(redislimit.NewFixedWindow(client, 1000, 24*time.Hour, redislimit.Options{OnFailure: redislimit.FailOpen, Timeout: timeout}))
			redistest.Eventually(t, "the server answers", func() bool { return take(t, l, "k", 1).Remaining < 999 })
			server.Pause()
			began := time.Now()
			for range 500 {
				if d := take(t, l, "k", 1); !d.OK {
					t.Fatalf("%+v", d)
				}
			}
			// Twenty that time out open the breaker, and then one every five seconds.
			if took := time.Since(began); took > 25*timeout+5*time.Second {
				t.Errorf("500 calls took %v", took)
			}
			server.Resume()
			redistest.Eventually(t, "the server is asked again", func() bool { return take(t, l, "k", 1).Remaining < 999 })
		})
	}
}

// A call is made in the goroutine of the caller, also with a client that heeds no deadlines.
func TestCallsTakeNoGoroutine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var here, reads atomic.Int64
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return tracedConn{conn, func() {
			reads.Add(1)
			if strings.Contains(string(debug.Stack()), t.Name()+"(") {
				here.Add(1)
			}
		}}, err
	}})
	defer client.Close()
	for kind, l := range kinds(standing{client: client}, redislimit.Options{}) {
		take(t, l, kind, 1)
	}
	if here.Load() == 0 || here.Load() != reads.Load() {
		t.Errorf("%d of %d replies are read by the caller", here.Load(), reads.Load())
	}
}

type tracedConn struct {
	net.Conn
	reads func()
}

func (c tracedConn) Read(p []byte) (int, error) {
	c.reads()
	return c.Conn.Read(p)
}

// A caller that gives up gets the error of its context, and no mode decides in its place.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	var errs reported
	l := kinds(standing{client: client}, redislimit.Options{OnFailure: redislimit.FailOpen, OnError: errs.add})["token bucket"]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := l.Take(ctx, "k", 1); !errors.Is(err, context.Canceled) || d.OK {
		t.Errorf("cancelled: %+v, %v", d, err)
	}
	server.Pause()
	defer server.Resume()
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if d, err := l.Take(ctx, "k", 1); !errors.Is(err, context.DeadlineExceeded) || d.OK || time.Since(began) > time.Second {
		t.Errorf("past its deadline: %+v, %v after %v", d, err, time.Since(began))
	}
	if errs.len() != 0 {
		t.Errorf("reported: %v", errs.all)
	}
}

// Flushed scripts are loaded again, flushed data is a fresh start, and a slow server is waited for.
func TestServerIsFlushedAndSlow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var errs reported
	for kind, l := range kinds(standing{client: newClient(t, proxy.Addr())}, redislimit.Options{OnError: errs.add}) {
		if d := take(t, l, kind, 60); d.Remaining != 40 {
			t.Errorf("%s: %+v", kind, d)
		}
		server.Do("SCRIPT", "FLUSH")
		if d := take(t, l, kind, 40); !d.OK {
			t.Errorf("%s: scripts flushed: %+v", kind, d)
		}
		server.Do("FLUSHALL")
		if d := take(t, l, kind, 90); !d.OK || d.Remaining != 10 {
			t.Errorf("%s: data flushed: %+v", kind, d)
		}
		proxy.Set(redistest.Faults{Delay: 30 * time.Millisecond})
		if d := take(t, l, kind, 10); !d.OK || d.Remaining > 1 {
			t.Errorf("%s: slow: %+v", kind, d)
		}
		proxy.Set(redistest.Faults{})
	}
	if errs.len() != 0 {
		t.Errorf("reported: %v", errs.all)
	}
}

// A key that somebody else has written is an error of the mode, not a panic and not a free pass.
func TestForeignValues(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		for kind, l := range kinds(s, redislimit.Options{}) {
			take(t, l, kind, 1)
			var state string
			for _, key := range s.client.Keys(t.Context(), "{"+kind+"}*").Val() {
				if !strings.Contains(key, ":op:") {
					state = key
				}
			}
			for _, write := range []func() error{
				func() error { return s.client.Set(t.Context(), state, "what", 0).Err() },
				func() error { return s.client.Set(t.Context(), state, "-1 -1 -1", 0).Err() },
				func() error { return s.client.HSet(t.Context(), state, "a", "b").Err() },
				func() error { return s.client.RPush(t.Context(), state, "what").Err() },
			} {
				s.client.Del(t.Context(), state)
				if err := write(); err != nil {
					t.Fatal(err)
				}
				if d, err := l.Take(t.Context(), kind, 1); !errors.Is(err, redislimit.ErrUnavailable) || d.OK {
					t.Errorf("%s: %+v, %v", kind, d, err)
				}
			}
		}
	})
}

// Only denials are remembered, and until RetryAfter: the server is not asked meanwhile, and a
// microsecond later it is.
func TestDenialsAreRemembered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var asked counting
	client := newClient(t, server.Addr())
	client.AddHook(&asked)
	l := must(redislimit.NewTokenBucket(client, limit.Every(150*time.Millisecond), 1, redislimit.Options{Timeout: patience, CacheDenials: 2}))
	asks := func(key string, n int) (limit.Decision, int64) {
		before := asked.calls.Load()
		d := take(t, l, key, n)
		return d, asked.calls.Load() - before
	}
	if d, calls := asks("a", 1); !d.OK || calls == 0 {
		t.Errorf("admitted: %+v with %d calls", d, calls)
	}
	began := time.Now()
	denied, _ := asks("a", 1)
	for last := denied; ; {
		d, calls := asks("a", 1)
		if calls > 0 {
			if waited := time.Since(began); !d.OK && waited < last.RetryAfter {
				t.Errorf("asked after %v: %+v", waited, d)
			}
			break
		}
		if d.OK || d.RetryAfter > last.RetryAfter || d.RetryAfter <= 0 {
			t.Fatalf("remembered: %+v after %+v", d, last)
		}
		if _, calls := asks("a", 0); calls == 0 {
			t.Fatal("a peek is answered from memory")
		}
		last = d
	}
	if waited := time.Since(began); waited < denied.RetryAfter {
		t.Errorf("asked again after %v, want %v", waited, denied.RetryAfter)
	}
	for i := range 100 { // more keys than are remembered
		key := fmt.Sprint(i)
		asks(key, 1)
		asks(key, 1)
	}
}

// counting counts the commands of a client.
type counting struct{ calls atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.calls.Add(1)
		return next(ctx, cmd)
	}
}
func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A decision is one EVALSHA.
func TestOneCallADecision(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		var asked counting
		s.client.AddHook(&asked)
		all := kinds(s, redislimit.Options{})
		g := newGroup(s)
		for _, n := range []int{1, 99, 1, 0, 101} {
			for kind, l := range all {
				if n == 1 {
					take(t, l, kind+" other", 1) // loads the script
				}
				before := asked.calls.Load()
				take(t, l, kind, n)
				if calls := asked.calls.Load() - before; calls != 1 {
					t.Errorf("%s: %d units take %d calls", kind, n, calls)
				}
			}
		}
		for range 2 {
			asked.calls.Store(0)
			h, _, err := g.HoldAll(t.Context(), charges(all, "g", 1, 2, 3, 4)...)
			if err != nil || h.Cancel(t.Context()) != nil {
				t.Fatal(err)
			}
		}
		if calls := asked.calls.Load(); calls != 2 {
			t.Errorf("HoldAll and Cancel take %d calls, want 2", calls)
		}
	})
}
