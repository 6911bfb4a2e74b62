// A server that is down, slow or silent: no call waits for it, and no quota is exceeded.

package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// outages are the ways in which a server is out of reach. In the short form of a test that takes
// long it is the first two.
var outages = []struct {
	name  string
	begin func(*redistest.Server, *redistest.Proxy)
	end   func(*redistest.Server, *redistest.Proxy)
}{
	{"killed", func(s *redistest.Server, _ *redistest.Proxy) { s.Do("SAVE"); s.Kill() },
		func(s *redistest.Server, _ *redistest.Proxy) { s.RestartSaved() }},
	{"half-open", func(_ *redistest.Server, p *redistest.Proxy) { p.Set(redistest.Faults{Swallow: true}) }, faultless},
	{"reset", func(_ *redistest.Server, p *redistest.Proxy) { p.Set(redistest.Faults{Down: true}) }, faultless},
	{"5 s slow", func(_ *redistest.Server, p *redistest.Proxy) { p.Set(redistest.Faults{Delay: 5 * time.Second}) }, faultless},
	{"stopped", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
		func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() }},
}

func faultless(_ *redistest.Server, p *redistest.Proxy) {
	p.Set(redistest.Faults{})
	p.Reset()
}

// hung is how long a call takes at least that waits for a server that is out of reach: its reply
// comes after 5 s, or never.
const hung = 4 * time.Second

// With FailClosed a call is denied while the server is out of reach, and none waits for it.
func TestOutageFailClosed(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			rl := machine{addr: proxy.Addr(), limiter: ratelimit.Config{FailClosed: true}}.start(t)
			var a admitted
			a.work(rl, 1, 10)
			open := a.reserve(rl, 7)

			o.begin(server, proxy)
			var longest time.Duration
			timed := func(what string, call func()) {
				t.Helper()
				began := time.Now()
				call()
				took := time.Since(began)
				if longest = max(longest, took); took > hung {
					t.Errorf("%s takes %v while the server is %s", what, took, o.name)
				}
			}
			timed("Reserve", func() {
				if _, d := rl.Reserve(model, 1, 0); d.Code != ratelimit.DecisionStoreError {
					t.Errorf("Reserve answers %q, want %q", d.Code, ratelimit.DecisionStoreError)
				}
			})
			timed("Commit", func() { open.Commit(3, 0) })
			a.tokens.Add(3 - 7)
			timed("RecordUsage", func() { rl.RecordUsage(model, 2, 0) })
			a.requests.Add(1)
			a.tokens.Add(2)
			timed("Decide", func() {
				if d := rl.Decide(model, 1); d.Code != ratelimit.DecisionStoreError {
					t.Errorf("Decide answers %q, want %q", d.Code, ratelimit.DecisionStoreError)
				}
			})
			timed("CanSend", func() { rl.CanSend(model, 1) })
			timed("Stats", func() { rl.Stats(model) })
			timed("Reserve again", func() { rl.Reserve(model, 1, 0) })
			timed("Err", func() {
				if rl.Err() == nil {
					t.Error("Err is nil")
				}
			})
			t.Logf("the longest call took %v", longest)

			o.end(server, proxy)
			a.check(t, server.Addr(), rl)
		})
	}
}

// Acquire ends with its context while the server is out of reach.
func TestOutageEndsAcquire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rl := machine{addr: proxy.Addr(), limiter: ratelimit.Config{FailClosed: true}}.start(t)
	proxy.Set(redistest.Faults{Swallow: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	if _, err := rl.Acquire(ctx, model, 1, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > hung {
		t.Errorf("Acquire returns %v after %v", err, time.Since(began))
	}
}

// Without FailClosed the limiters stay within the quota together, whichever is out of reach.
func TestOutageShares(t *testing.T) {
	t.Parallel()
	const limiters, used = 4, 20
	quota := ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 1000, MaxRPD: 100, MaxTPD: 1000}
	for _, o := range outages[:times(2, len(outages))] {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			var all []*ratelimit.RateLimiter
			for range limiters {
				all = append(all, machine{addr: proxy.Addr(), limiter: ratelimit.Config{
					Quotas: map[string]ratelimit.ModelQuota{model: quota},
				}}.start(t))
			}
			var a admitted
			for i := range used {
				a.reserve(all[i%limiters], 10).Commit(10, 0)
			}
			awaitSum(t, &a, all...) // so each has heard of the others

			heard := time.Now()
			for _, rl := range all {
				rl.Stats(model)
			}
			o.begin(server, proxy)
			var each sync.WaitGroup
			for _, rl := range all {
				each.Go(func() {
					own := takeShare(rl)
					want := int64(quota.MaxRPM-used) / limiters
					if got := own.requests.Load(); got != want && (got != 0 || time.Since(heard) < contact) {
						t.Errorf("a limiter admits %d, want its share of %d", got, want)
					}
					a.requests.Add(own.requests.Load())
					a.tokens.Add(own.tokens.Load())
				})
			}
			each.Wait()
			if sum := a.sum(); sum.requests > quota.MaxRPM {
				t.Errorf("together they admit %d, more than %d", sum.requests, quota.MaxRPM)
			}

			o.end(server, proxy)
			for _, rl := range all {
				awaitStore(t, rl)
			}
			if _, d := all[0].Reserve(model, 10, 0); d.Allowed {
				t.Errorf("the quota is used up, and a limiter admits more: %+v, %v", d, all[0].Err())
			}
			a.check(t, server.Addr(), all...)
		})
	}
}

// contact is how long before it notices an outage a limiter has to have heard of all that was in
// the store, to have a share.
const contact = 3*time.Second - 100*time.Millisecond // and MaxStale

// takeShare has a limiter admit until it denies.
func takeShare(rl *ratelimit.RateLimiter) *admitted {
	own := new(admitted)
	for own.denied.Load() == 0 {
		if r := own.reserve(rl, 10); r != nil {
			r.Commit(10, 0)
		}
	}
	return own
}

// A server of which one reply in ten fails is not down: the calls are made again.
func TestFailuresAreNoOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rl := machine{addr: proxy.Addr(), store: redisstore.Options{Timeout: 5 * time.Second},
		limiter: ratelimit.Config{FailClosed: true}}.start(t)
	proxy.Set(redistest.Faults{Close: 10})
	var a admitted
	for range times(100, 10_000) {
		if r := a.reserve(rl, 1); r != nil {
			r.Commit(1, 0)
		}
	}
	proxy.Set(redistest.Faults{})
	if denied := a.denied.Load(); denied > 0 {
		t.Errorf("%d calls are denied", denied)
	}
	a.check(t, server.Addr(), rl)
}

// A limiter that starts while the server is out of reach says so, and soon.
func TestOutageAtStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := clientOf(t, proxy.Addr())
	store, err := redisstore.New(t.Context(), client, redisstore.Options{Prefix: prefix, OpenTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	proxy.Set(redistest.Faults{Swallow: true})
	began := time.Now()
	if rl, err := ratelimit.NewWithConfig(ratelimit.Config{Store: store, Quotas: plenty}); err == nil {
		rl.Close()
		t.Error("a limiter starts without its store")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := redisstore.New(ctx, client, redisstore.Options{Prefix: prefix}); err == nil {
		t.Error("no error of a store without a server")
	}
	if took := time.Since(began); took > hung {
		t.Errorf("the errors took %v", took)
	}
}

// A limiter comes back by itself, however much there is to read and however long the network takes.
// No call waits for that.
func TestOutageWithALargeLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	one, two := limiterOf(t, proxy.Addr()), limiterOf(t, proxy.Addr())
	var a admitted
	a.work(one, 1, times(3_000, 100_000)) // one goroutine, so that no two share an entry
	awaitStore(t, one)
	awaitSum(t, &a, two)
	proxy.Set(redistest.Faults{Down: true})
	a.work(two, 2, 20)
	a.work(one, 2, 20)
	proxy.Set(redistest.Faults{Delay: 20 * time.Millisecond}) // as between regions
	began := time.Now()
	var longest time.Duration
	redistest.Eventually(t, "the limiters use the store", func() bool {
		asked := time.Now()
		a.call(one, 2)
		longest = max(longest, time.Since(asked))
		return one.Err() == nil && two.Err() == nil
	})
	t.Logf("the limiters use the store again after %v, the longest call took %v", time.Since(began), longest)
	if longest > hung {
		t.Errorf("a call took %v", longest)
	}
	proxy.Set(redistest.Faults{})
	a.check(t, server.Addr(), one, two)
}

// What a limiter has charged while it was cut off is written in parts, between which others write.
// It comes back at once all the same.
func TestOutageWithALongOutbox(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	one, two := limiterOf(t, proxy.Addr()), limiterOf(t, server.Addr())
	var a admitted
	a.work(one, 1, 10)
	awaitSum(t, &a, one, two)
	proxy.Set(redistest.Faults{Down: true})
	for range times(2_000, 9_000) {
		one.RecordUsage(model, 1, 0)
		a.requests.Add(1)
		a.tokens.Add(1)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				a.call(two, i)
			}
		}
	})
	proxy.Set(redistest.Faults{})
	began := time.Now()
	redistest.Eventually(t, "the limiter uses the store", func() bool { return one.Err() == nil })
	t.Logf("the limiter uses the store again after %v", time.Since(began))
	close(stop)
	all.Wait()
	a.check(t, server.Addr(), one, two)
}
