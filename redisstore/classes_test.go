package redisstore_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// The machines of a prefix have one set of classes and one set of lines, also for one that joins
// while calls wait, and a call that waits for any of several models is served once.
func TestMachinesHaveOneSetOfLines(t *testing.T) {
	server := redistest.Start(t)
	cfg := ratelimit.Config{
		Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}, "n": {MaxInFlight: 1}},
		Classes: map[string]ratelimit.Class{"person": {Ahead: true}, "heavy": {Weight: 3}, "light": {}},
	}
	limiters := []*ratelimit.RateLimiter{machine{addr: server.Addr(), limiter: cfg}.start(t), machine{addr: server.Addr(), limiter: cfg}.start(t)}
	held, _ := limiters[0].Reserve("m", 1, 1)
	also, _ := limiters[0].Reserve("n", 1, 1)
	defer also.Cancel()

	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	waiting := 0
	comes := func(rl *ratelimit.RateLimiter, class string, any bool) {
		name := fmt.Sprint(class[:1], waiting)
		all.Go(func() {
			reqs := []ratelimit.Request{{Model: "m", Class: class}}
			if any {
				reqs = append(reqs, ratelimit.Request{Model: "n", Class: class})
			}
			r, err := rl.AcquireAny(t.Context(), ratelimit.AnyOptions{}, reqs...)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			r.Commit(1, 1)
		})
		for waiting++; limiters[0].Stats("m").Waiting < waiting; {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 3 {
		comes(limiters[i%2], "light", false)
	}
	for i := range 3 {
		comes(limiters[i%2], "heavy", false)
	}
	limiters = append(limiters, machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: cfg.Quotas}}.start(t))
	if got := limiters[2].Classes(); !maps.Equal(got, cfg.Classes) {
		t.Errorf("one that joins has the classes %v", got)
	}
	comes(limiters[2], "heavy", true)
	comes(limiters[2], "person", true)
	held.Commit(1, 1)
	all.Wait()
	if got, want := strings.Join(order, " "), "p7 l0 h3 h4 h5 l1 h6 l2"; got != want {
		t.Errorf("served %q, want %q", got, want)
	}
	for _, name := range []string{"m", "n"} {
		for i, rl := range limiters {
			for range 1000 { // it hears of it in a moment
				if rl.Stats(name).Waiting == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if n := rl.Stats(name).Waiting; n != 0 {
				t.Errorf("machine %d: %d wait for %s", i, n, name)
			}
		}
	}
}
