package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// schedule is random calls that wait for several models, in classes and flows.
type schedule struct {
	*testing.T
	rls     []*ratelimit.RateLimiter
	random  *rand.Rand
	models  []string
	classes []string
	flows   []string
	served  atomic.Int64
	gone    atomic.Int64
	wg      sync.WaitGroup
}

func pickOf[E any](random *rand.Rand, from []E) E { return from[random.IntN(len(from))] }

func (s *schedule) request() ratelimit.Request {
	return ratelimit.Request{
		Model: pickOf(s.random, s.models), PromptTokens: 1 + s.random.IntN(40), OutputTokens: s.random.IntN(10),
		Class: pickOf(s.random, s.classes), Flow: pickOf(s.random, s.flows),
	}
}

// call starts one call, which holds what it gets for a while.
func (s *schedule) call() {
	var reqs []ratelimit.Request
	for range 1 + s.random.IntN(3) {
		reqs = append(reqs, s.request())
	}
	for i := range reqs {
		if len(reqs) > 1 {
			reqs[i].PromptTokens, reqs[i].OutputTokens = reqs[i].PromptTokens/3, reqs[i].OutputTokens/3
		}
	}
	rl := pickOf(s.random, s.rls)
	ctx, cancel := context.WithCancel(s.Context())
	kind, hold := s.random.IntN(4), time.Duration(s.random.IntN(3000))*time.Millisecond
	patience := time.Duration(s.random.IntN(2)*s.random.IntN(5000)) * time.Millisecond
	if s.random.IntN(8) == 0 {
		time.AfterFunc(time.Duration(s.random.IntN(20_000))*time.Millisecond, cancel)
	}
	s.wg.Go(func() {
		defer cancel()
		var rs ratelimit.Reservations
		var err error
		switch kind {
		case 0:
			var r *ratelimit.Reservation
			r, err = rl.AcquireAny(ctx, ratelimit.AnyOptions{Patience: patience}, reqs...)
			rs = append(rs, r)
		case 1:
			rs, err = rl.AcquireAll(ctx, reqs...)
		default:
			rs, err = rl.AcquireAll(ctx, reqs[:1]...)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			s.Errorf("%v", err)
		case err != nil:
			s.gone.Add(1)
			return
		}
		time.Sleep(hold)
		for i, r := range rs {
			if i%2 == 0 {
				r.Commit(3, 3)
			} else {
				r.Cancel()
			}
		}
		s.served.Add(1)
	})
}

// Whatever waits for what, and in whatever order, all that fits alone is served.
func TestSchedulesEnd(t *testing.T) {
	t.Parallel()
	n := times(300, 60, 100_000)
	for seed := range uint64(n) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				playSchedule(t, seed, 1, func(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
					return newLimiterWith(t, cfg)
				})
			})
		}) {
			return
		}
	}
}

func playSchedule(t *testing.T, seed uint64, most int, open func(*testing.T, ratelimit.Config) *ratelimit.RateLimiter) {
	random := rand.New(rand.NewPCG(seed, 21))
	s := &schedule{
		T: t, random: random, models: []string{"a", "b", "c", "d"}[:2+random.IntN(3)],
		classes: []string{"", "heavy", "ahead", "also"}[:1+random.IntN(4)], flows: []string{"", "x", "y"}[:1+random.IntN(3)],
	}
	var cfg ratelimit.Config
	cfg.Quotas = make(map[string]ratelimit.ModelQuota)
	for _, m := range s.models {
		cfg.Quotas[m] = ratelimit.ModelQuota{MaxInFlight: random.IntN(4), MaxRPM: 4 * random.IntN(6), MaxTPM: 60 * random.IntN(4)}
		if q := cfg.Quotas[m]; q.MaxInFlight > 0 {
			q.MaxInFlight += 2
			cfg.Quotas[m] = q
		}
	}
	if random.IntN(2) == 0 {
		cfg.Pools = map[string]ratelimit.Pool{
			"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 4, MaxRPM: 10 * random.IntN(4)}},
			"two": {Models: s.models[:2], Quota: ratelimit.ModelQuota{MaxInFlight: 3 * random.IntN(3), MaxTPM: 100 * random.IntN(3)}},
			"odd": {Models: []string{"a", "c"}, Quota: ratelimit.ModelQuota{MaxRPM: 6 * random.IntN(3)}},
		}
	}
	cfg.Classes = map[string]ratelimit.Class{"heavy": {Weight: 1 + random.IntN(9)}, "ahead": {Ahead: true}, "also": {Ahead: true, Weight: 3}}
	if len(s.classes) == 1 {
		cfg.Classes = nil
	}
	cfg.LeaseTTL = 1000 * time.Hour
	s.rls = append(s.rls, open(t, cfg))
	calls := 20 + random.IntN(60)
	for range calls {
		s.call()
		switch random.IntN(6) {
		case 0:
			time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		case 1:
			synctest.Wait()
		case 3:
			if len(s.rls) < most {
				s.rls = append(s.rls, open(t, cfg)) // joins those that wait already
			}
		case 2:
			if random.IntN(10) == 0 {
				pickOf(random, s.rls).SetClasses(map[string]ratelimit.Class{"heavy": {Weight: 2, Ahead: random.IntN(2) == 0}})
			}
		}
	}
	done := make(chan bool)
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(3 * time.Hour):
		t.Fatalf("%d of %d were served, %d gave up", s.served.Load(), calls, s.gone.Load())
	}
	for i, rl := range s.rls {
		for _, m := range s.models {
			if st := rl.Stats(m); st.Waiting+st.InFlight != 0 {
				t.Errorf("limiter %d: %s: %d wait and %d are in flight at the end", i, m, st.Waiting, st.InFlight)
			}
		}
	}
}

// The same over three limiters that share a log, in memory or on another machine; one of them joins
// later.
func TestSharedSchedulesEnd(t *testing.T) {
	overFakes(t, times(60, 10, 20_000), func(t *testing.T, seed int, fake *fakestore.Fake) {
		playSchedule(t, uint64(seed), 4, func(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
			var rl *ratelimit.RateLimiter
			var err error
			if seed%2 == 0 {
				rl, _, err = ratelimit.NewOverFake(fake, cfg)
			} else {
				cfg.Store = fake
				rl, err = ratelimit.NewWithConfig(cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rl.Close() })
			return rl
		})
	})
}
