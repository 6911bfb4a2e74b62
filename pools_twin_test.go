// A pool of one model decides as the model's own quota does.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// twins are two limiters: of the first the model "m" has a quota, of the second the pool "p" of
// "m".
type twins struct {
	t           *testing.T
	own, pooled *ratelimit.RateLimiter
	open        [][2]*ratelimit.Reservation
	waits       []chan string
}

func randomPoolQuota(r *rand.Rand) (q ratelimit.ModelQuota) {
	for _, limit := range []struct {
		of   *int
		most int
	}{{&q.MaxRPM, 6}, {&q.MaxTPM, 60}, {&q.MaxITPM, 40}, {&q.MaxOTPM, 40}, {&q.MaxRPD, 30}, {&q.MaxTPD, 500}, {&q.MaxInFlight, 4}} {
		if r.IntN(3) == 0 {
			*limit.of = 1 + r.IntN(limit.most)
		}
	}
	switch r.IntN(4) {
	case 0:
		q.Burst = time.Duration(1+r.IntN(30)) * time.Second
	case 1:
		q.DayZone = "Asia/Tokyo"
	case 2: // a search goes up and down at random, so there is nothing to search
		if r.IntN(2) == 0 {
			q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM = 20, 20
		}
		if r.IntN(2) == 0 {
			q.AdaptiveFloorInFlight, q.AdaptiveCeilingInFlight = 3, 3
		}
	}
	return q
}

// same checks that two decisions agree, one of a model and one of the pool.
func (tw *twins) same(what string, own, pooled ratelimit.Decision) {
	tw.t.Helper()
	wantPool := ""
	if !own.Allowed && own.Code != ratelimit.DecisionInvalidTokens && own.Code != ratelimit.DecisionQueued {
		wantPool = "p"
	}
	code := own.Code
	if own.Allowed {
		code = ratelimit.DecisionUnlimited
	}
	if own.Allowed != pooled.Allowed || code != pooled.Code || own.RetryAfter != pooled.RetryAfter || own.Never != pooled.Never || pooled.Pool != wantPool {
		tw.t.Fatalf("%s: the model %+v\nthe pool %+v", what, own, pooled)
	}
}

// stats checks that the pool counts what the model does.
func (tw *twins) stats(step int) {
	tw.t.Helper()
	own, pooled := tw.own.Stats("m"), tw.pooled.PoolStats("p")
	if own != pooled {
		tw.t.Fatalf("step %d: the model %+v\nthe pool %+v", step, own, pooled)
	}
}

func (tw *twins) reserve(in, out int) {
	a, da := tw.own.Reserve("m", in, out)
	b, db := tw.pooled.Reserve("m", in, out)
	tw.same("reserve", da, db)
	if a != nil {
		tw.open = append(tw.open, [2]*ratelimit.Reservation{a, b})
	}
}

func (tw *twins) reserveAll(r *rand.Rand) {
	reqs := make([]ratelimit.Request, 1+r.IntN(3))
	for i := range reqs {
		reqs[i] = ratelimit.Request{Model: "m", PromptTokens: r.IntN(20), OutputTokens: r.IntN(10)}
	}
	a, da := tw.own.ReserveAll(reqs...)
	b, db := tw.pooled.ReserveAll(reqs...)
	tw.same("reserve all", da, db)
	for i := range a {
		tw.open = append(tw.open, [2]*ratelimit.Reservation{a[i], b[i]})
	}
}

// settle does the same with an open reservation of each.
func (tw *twins) settle(r *rand.Rand) {
	if len(tw.open) == 0 {
		return
	}
	i := r.IntN(len(tw.open))
	pair := tw.open[i]
	kind, in, out, ago := r.IntN(4), r.IntN(30), r.IntN(20), time.Duration(r.IntN(5))*time.Second
	for _, res := range pair {
		switch kind {
		case 0:
			res.Cancel()
		case 1:
			res.Arrived(time.Now().Add(-ago))
		default:
			res.Commit(in, out)
		}
	}
	if kind != 1 {
		tw.open = append(tw.open[:i], tw.open[i+1:]...)
	}
}

// wait has a call of each wait.
func (tw *twins) wait(r *rand.Rand) {
	in, out, keeps := r.IntN(20), r.IntN(10), r.IntN(2) == 0
	// No two goroutines do anything at the same instant, where their order would be anything.
	apart := time.Duration(len(tw.waits)+1) * 1_000_003
	patience, keep := time.Duration(1+r.IntN(100))*time.Second+apart, time.Second+apart
	call := func(rl *ratelimit.RateLimiter) chan string {
		done := make(chan string, 1)
		began := time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			res, err := rl.Acquire(ctx, "m", in, out)
			var limit *ratelimit.LimitError
			if errors.As(err, &limit) {
				err = limit.Err
			}
			done <- fmt.Sprint(time.Since(began), err)
			if keeps {
				time.Sleep(keep)
			}
			res.Commit(in, out)
		}()
		return done
	}
	a := call(tw.own)
	synctest.Wait()
	b := call(tw.pooled)
	synctest.Wait()
	tw.waits = append(tw.waits, a, b)
}

func (tw *twins) step(r *rand.Rand, step int) {
	switch r.IntN(14) {
	case 0, 1, 2, 3:
		tw.reserve(r.IntN(25), r.IntN(15))
	case 4:
		tw.reserveAll(r)
	case 5, 6:
		tw.settle(r)
	case 7:
		tw.own.RecordUsage("m", step%7, step%3)
		tw.pooled.RecordUsage("m", step%7, step%3)
	case 8:
		n := r.IntN(30) - 1
		tw.same("decide", tw.own.Decide("m", n), tw.pooled.Decide("m", n))
		if a, b := tw.own.CanSend("m", n), tw.pooled.CanSend("m", n); a != b {
			tw.t.Fatalf("step %d: CanSend of the model %v, of the pool %v", step, a, b)
		}
	case 9:
		if len(tw.open) == 0 { // whose lines are other ones
			tw.wait(r)
		}
	case 10:
		if r.IntN(10) == 0 {
			q := randomPoolQuota(r)
			tw.own.SetQuota("m", q)
			tw.pooled.SetPool("p", ratelimit.Pool{Models: []string{"m"}, Quota: q})
		}
	case 11:
		if r.IntN(20) == 0 {
			tw.own.Reset("")
			tw.pooled.Reset("")
		}
	case 12:
		for _, rl := range []*ratelimit.RateLimiter{tw.own, tw.pooled} {
			rl.ObserveRefusal(tw.t.Context(), ratelimit.ProviderRefusal{Model: "m", Problem: "rate_limited"})
		}
	default:
		for d := time.Duration(r.IntN(20_000)) * time.Millisecond; d > 0; d /= 7 {
			time.Sleep(d)
		}
		if r.IntN(200) == 0 {
			time.Sleep(20 * time.Hour)
		}
	}
	synctest.Wait()
	tw.stats(step)
}

func TestPoolOfOneModelIsItsQuota(t *testing.T) {
	for seed := range manySeeds(t, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				q := randomPoolQuota(r)
				tw := &twins{
					t:   t,
					own: newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q}}),
					pooled: newLimiterWith(t, ratelimit.Config{
						Quotas: map[string]ratelimit.ModelQuota{"m": {}},
						Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: q}},
					}),
				}
				for step := range 400 {
					tw.step(r, step)
				}
				for len(tw.open) > 0 {
					tw.settle(r)
				}
				time.Sleep(200 * time.Second)
				synctest.Wait()
				for i := 0; i < len(tw.waits); i += 2 {
					if a, b := <-tw.waits[i], <-tw.waits[i+1]; a != b {
						t.Fatalf("wait %d: of the model %s, of the pool %s", i/2, a, b)
					}
				}
				tw.own.Close()
				tw.pooled.Close()
			})
		})
	}
}
