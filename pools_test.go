// Pools: who is in them, what they deny, who says so, who waits for them, and what providers report
// of them.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

type pools = map[string]ratelimit.Pool

// rpmPool is a pool with a limit of requests.
func rpmPool(rpm int, models ...string) ratelimit.Pool {
	return ratelimit.Pool{Models: models, Quota: ratelimit.ModelQuota{MaxRPM: rpm}}
}

// poolLimiter has two models and some pools.
func poolLimiter(t testing.TB, of pools) *ratelimit.RateLimiter {
	t.Helper()
	return newLimiterWith(t, ratelimit.Config{
		Quotas: quotas{"a": {MaxRPM: 5}, "b": {}}, Pools: of,
	})
}

func TestPoolsOf(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{
		Quotas:  quotas{"a": {}, "b": {}, "gpt-4o": {}, "*": {MaxRPM: 9}},
		Aliases: map[string]string{"alias": "a", "x-alias": "b"}, MatchVersions: true,
		Pools: pools{
			"named": rpmPool(1, "a"), "pattern": rpmPool(1, "gpt-*"), "all": rpmPool(1, "*"), "as asked": rpmPool(1, "x-*"),
			"none": rpmPool(1), "a": rpmPool(1, "no model"), "versions": rpmPool(1, "gpt-4o"),
		},
	})
	for model, want := range map[string][]string{
		"a": {"all", "named"}, "alias": {"all", "named"}, "b": {"all"}, "x-alias": {"all", "as asked"}, "gpt-4o": {"all", "pattern", "versions"},
		"gpt-4o-2024-08-06": {"all", "pattern", "versions"}, "unlisted": {"all"}, "x-y": {"all", "as asked"}, "": {"all"},
		"pool:a": {"all"}, "\x1fpool:named": {"all"}, "no model": {"a", "all"},
	} {
		for range 2 {
			if got := rl.PoolsOf(model); !slices.Equal(got, want) {
				t.Errorf("%q is in %q, want %q", model, got, want)
			}
		}
		rl.RecordUsage(model, 1, 0)
		for _, pool := range want {
			if s := rl.PoolStats(pool); s.RPM != 1 {
				t.Errorf("after %q %q has %+v", model, pool, s)
			}
		}
		rl.Reset("")
	}
}

// Every entry of a call is denied by a pool that is used up, and charges nothing.
func TestPoolDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := poolLimiter(t, pools{"p": rpmPool(2, "a", "b"), "q": rpmPool(2, "b")})
		defer rl.Close()
		rl.RecordUsage("a", 1, 1)
		time.Sleep(10 * time.Second)
		r, d := rl.Reserve("b", 1, 1)
		if !d.Allowed || d.Pool != "" || d.Code != ratelimit.DecisionUnlimited {
			t.Fatalf("%+v", d)
		}
		req := ratelimit.Request{Model: "a", PromptTokens: 1}
		_, reserve := rl.Reserve("a", 1, 0)
		_, all := rl.ReserveAll(req, ratelimit.Request{Model: "other"})
		_, inContext := rl.ReserveContext(t.Context(), req)
		for what, d := range map[string]ratelimit.Decision{
			"Decide": rl.Decide("a", 1), "DecideRequest": rl.DecideRequest(req), "Reserve": reserve, "ReserveAll": all,
			"ReserveContext": inContext, "Explain": rl.Explain("a").Next,
		} {
			if d.Allowed || d.Pool != "p" || d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter != 50*time.Second+1 || d.Never ||
				d.Model != "a" || d.Stats != rl.Stats("a") || !strings.Contains(d.Reason, `pool "p"`) {
				t.Errorf("%s: %+v", what, d)
			}
		}
		if rl.CanSend("a", 1) || rl.CanSend("b", 1) || !rl.CanSend("other", 1) {
			t.Error("CanSend says otherwise")
		}
		if got := rl.Stats("a").RPM; got != 1 {
			t.Errorf("a was charged: %d", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rl.Acquire(ctx, "a", 1, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire: %v", err)
		}
		r.Arrived(time.Now())
		if err := rl.WaitForCapacity(t.Context(), "b", 1); err != nil || time.Since(r.ReservedAt()) != 50*time.Second+1 {
			t.Errorf("WaitForCapacity: %v after %v", err, time.Since(r.ReservedAt()))
		}
		again, err := rl.Acquire(t.Context(), "a", 1, 0)
		if err != nil || rl.PoolStats("p").InFlight != 2 || rl.PoolStats("q").InFlight != 1 {
			t.Errorf("Acquire: %v, %+v", err, rl.PoolStats("p"))
		}
		r.Cancel()
		again.Cancel()
		if s := rl.PoolStats("p"); s.RPM != 0 || s.InFlight != 0 || s.RPD != 1 {
			t.Errorf("after all %+v", s)
		}
	})
}

// The model names a denial before its pools, and these in the order of their names; the wait covers
// all of them.
func TestPoolDecisionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 2}}
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: quotas{"a": {MaxRPM: 2}, "b": {}},
			Pools:  pools{"m": day, "k": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}}},
		})
		rl.RecordUsage("a", 10, 0)
		rl.RecordUsage("a", 10, 0)
		d := rl.Decide("a", 1)
		if d.Code != ratelimit.DecisionRPMLimit || d.Pool != "" || d.RetryAfter != 24*time.Hour {
			t.Errorf("the model first: %+v", d)
		}
		d = rl.Decide("b", 90)
		if d.Code != ratelimit.DecisionTPMLimit || d.Pool != "k" || d.RetryAfter != 24*time.Hour {
			t.Errorf("then the first pool: %+v", d)
		}
		if d = rl.Decide("a", 101); !d.Never || d.RetryAfter != 0 || !strings.Contains(d.Reason, `pool "k"`) {
			t.Errorf("what never passes a pool: %+v", d)
		}
		if d = rl.Decide("a", -1); d.Code != ratelimit.DecisionInvalidTokens || d.Pool != "" {
			t.Errorf("negative tokens: %+v", d)
		}
		rl.Cooldown("a", time.Now().Add(time.Minute))
		if d = rl.Decide("a", 1); d.Code != ratelimit.DecisionCooldown || d.Pool != "" || d.RetryAfter != 24*time.Hour {
			t.Errorf("a cooldown: %+v", d)
		}
	})
}

// Nothing is charged where one of several models or pools denies.
func TestPoolsAllOrNone(t *testing.T) {
	rl := poolLimiter(t, pools{"one": rpmPool(3, "a"), "two": rpmPool(2, "a", "b")})
	rs, d := rl.ReserveAll(ratelimit.Request{Model: "a"}, ratelimit.Request{Model: "b"}, ratelimit.Request{Model: "c"})
	if !d.Allowed || len(rs) != 3 {
		t.Fatal(d)
	}
	if _, d = rl.ReserveAll(ratelimit.Request{Model: "c"}, ratelimit.Request{Model: "b"}); d.Allowed || d.Pool != "two" || d.Model != "b" {
		t.Errorf("%+v", d)
	}
	if _, d = rl.ReserveAll(ratelimit.Request{Model: "b"}, ratelimit.Request{Model: "b"}, ratelimit.Request{Model: "b"}); !d.Never || d.Pool != "two" {
		t.Errorf("more than a pool has: %+v", d)
	}
	want := map[string]int{"one": 1, "two": 2}
	for name, s := range rl.IterPools() {
		if s.RPM != want[name] || s.InFlight != want[name] {
			t.Errorf("%s: %+v", name, s)
		}
	}
	rs.Cancel()
	for name, s := range rl.IterPools() {
		if s.RPM != 0 || s.InFlight != 0 || s.RPD != 0 {
			t.Errorf("%s after Cancel: %+v", name, s)
		}
	}
}

// The pool "*" is all models together; the quota "*" is one for each.
func TestPoolOfAllAndQuotaOfEach(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"*": {MaxRPM: 2}, "own": {MaxRPM: 9}}, Pools: pools{"*": rpmPool(5, "*")}})
	for i := range 5 {
		model := fmt.Sprint("model ", i/2)
		if i == 4 {
			model = "own"
		}
		if _, d := rl.Reserve(model, 1, 0); !d.Allowed {
			t.Fatalf("%s: %+v", model, d)
		}
	}
	if d := rl.Decide("model 0", 1); d.Pool != "" || d.Allowed {
		t.Errorf("its own: %+v", d)
	}
	if d := rl.Decide("model 9", 1); d.Pool != "*" {
		t.Errorf("all together: %+v", d)
	}
}

// A pool that names a model makes it known; "*" does not.
func TestPoolsAndUnknownModels(t *testing.T) {
	var met []string
	rl := newLimiterWith(t, ratelimit.Config{
		Quotas: quotas{"a": {}}, Unknown: ratelimit.UnknownDeny,
		Pools: pools{"p": rpmPool(1, "known", "k*"), "all": rpmPool(9, "*")},
	})
	for model, allowed := range map[string]bool{"known": true, "kk": false, "unknown": false} {
		if d := rl.Decide(model, 1); d.Allowed != allowed && model != "kk" || rl.CanSend(model, 1) != d.Allowed {
			t.Errorf("%s: %+v", model, d)
		}
		r, d := rl.Reserve(model, 1, 0)
		met = append(met, string(d.Code))
		if (r != nil) != d.Allowed {
			t.Errorf("%s: %+v", model, d)
		}
		rl.Reset("")
	}
	if d := rl.Decide("unknown", 1); d.Code != ratelimit.DecisionUnknownModel || !d.Never || d.Pool != "" {
		t.Errorf("unknown: %+v, %q", d, met)
	}
}

// Where there is no place for the state of an unlimited model, its pools are charged nevertheless.
func TestPoolsOfModelsWithoutPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: quotas{"a": {}}, MaxModels: 1, HoldTTL: time.Hour,
			Pools: pools{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 4, MaxInFlight: 3}}, "q": rpmPool(9, "*")},
		})
		defer rl.Close()
		var open []*ratelimit.Reservation
		for i := range 3 {
			r, d := rl.Reserve(fmt.Sprint("m", i), 5, 5)
			if !d.Allowed || r.Model() != fmt.Sprint("m", i) || r.ReservedAt().IsZero() {
				t.Fatalf("%+v, %q", d, r.Model())
			}
			open = append(open, r)
		}
		if d := rl.Decide("m9", 1); d.Pool != "p" || d.Code != ratelimit.DecisionInFlightLimit {
			t.Errorf("%+v", d)
		}
		open[1].Commit(1, 1)
		open[2].Cancel()
		rl.RecordUsage("m9", 1, 1)
		for _, name := range []string{"p", "q"} {
			if s := rl.PoolStats(name); s.RPM != 3 || s.TPM != 14 || s.InFlight != 1 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := rl.PoolStats("p"); s.InFlight != 0 {
			t.Errorf("after HoldTTL: %+v", s)
		}
		runtime.KeepAlive(open)
	})
}

// SetPool and RemovePool serve and refuse waiters at once.
func TestPoolChangesReachWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := poolLimiter(t, pools{"p": rpmPool(1, "b")})
		defer rl.Close()
		rl.RecordUsage("b", 1, 0)
		wait := func(tokens int) chan error {
			done := make(chan error, 1)
			go func() {
				r, err := rl.Acquire(t.Context(), "b", tokens, 0)
				r.Commit(tokens, 0)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first, second := wait(1), wait(1)
		if s := rl.PoolStats("p"); s.Waiting != 2 || rl.Stats("b").Waiting != 2 {
			t.Errorf("%+v", s)
		}
		if d := rl.Decide("b", 1); d.Code != ratelimit.DecisionQueued {
			t.Errorf("%+v", d)
		}
		rl.SetPool("p", rpmPool(2, "b"))
		if err := <-first; err != nil {
			t.Error(err)
		}
		large := wait(100)
		rl.SetPool("p", ratelimit.Pool{Models: []string{"b"}, Quota: ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 50}})
		if err := <-large; !errors.Is(err, ratelimit.ErrNeverFits) {
			t.Error(err)
		}
		rl.RemovePool("p")
		if err := <-second; err != nil {
			t.Error(err)
		}
		if rl.PoolStats("p") != (ratelimit.ModelStats{}) || len(rl.PoolsOf("b")) != 0 {
			t.Error("the pool is still there")
		}
	})
}

// SetPool keeps what was charged, and says what is wrong with a pool.
func TestSetPool(t *testing.T) {
	var reported []error
	done := make(chan bool)
	rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"a": {}}, OnError: func(err error) {
		reported = append(reported, err)
		done <- true
	}})
	rl.SetPool("p", rpmPool(2, "a"))
	r, _ := rl.Reserve("a", 1, 2)
	rl.SetPool("p", rpmPool(1, "b"))
	if s := rl.PoolStats("p"); s.RPM != 1 || s.InFlight != 1 || s.MaxRPM != 1 {
		t.Errorf("%+v", s)
	}
	r.Commit(3, 4)
	if s := rl.PoolStats("p"); s.TPM != 7 || s.InFlight != 0 {
		t.Errorf("it is settled where it was charged: %+v", s)
	}
	if !rl.CanSend("a", 1) || rl.CanSend("b", 1) {
		t.Error("the members are those of before")
	}
	pool, _ := rl.Pool("p")
	pool.Models[0] = "changed"
	if pool, _ = rl.Pool("p"); pool.Models[0] != "b" {
		t.Error("the caller changed the pool")
	}
	rl.SetPool("", rpmPool(1))
	<-done
	rl.SetPool("bad", rpmPool(1, "\xff"))
	if got := slices.Collect(rl.Pools()); !slices.Equal(got, []string{"p"}) {
		t.Errorf("the pools are %q", got)
	}
	if len(reported) == 0 || !strings.Contains(reported[0].Error(), "set pool: ") {
		t.Errorf("reported %v", reported)
	}
	rl.RemovePool("none")
	for range rl.Pools() {
		rl.RemovePool("p")
		break
	}
}

// A model that is called as a pool is inside has nothing to do with it.
func TestModelNamedAsPool(t *testing.T) {
	const odd = "\x1fpool:p"
	rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"a": {}, odd: {MaxRPM: 1}}, Pools: pools{"p": rpmPool(3, "a"), "x": rpmPool(3, odd)}})
	rl.RecordUsage(odd, 1, 1)
	if d := rl.Decide(odd, 1); d.Allowed || d.Pool != "" || d.Stats.MaxRPM != 1 {
		t.Errorf("%+v", d)
	}
	rl.SetQuota(odd, ratelimit.ModelQuota{MaxRPM: 9})
	if p, _ := rl.Pool("p"); p.Quota.MaxRPM != 3 || rl.PoolStats("p").RPM != 0 || rl.PoolStats("x").RPM != 1 {
		t.Errorf("the pool is %+v with %+v, the other has %+v", p, rl.PoolStats("p"), rl.PoolStats("x"))
	}
	rl.RecordUsage("a", 1, 0)
	rl.Reset(odd)
	if s := rl.PoolStats("p"); s.RPM != 1 || s.MaxRPM != 3 {
		t.Errorf("after a reset of the model the pool is %+v", s)
	}
	rl.RemoveQuota(odd)
	rl.Cooldown(odd, time.Now().Add(time.Hour))
	rl.Reset(odd)
	if !rl.CanSend("a", 1) {
		t.Error("the pool is cooled")
	}
}

// A waiter that its own model denies keeps no other model out of the pool.
func TestPoolLineIsOfThoseThatThePoolDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 1}, "b": {MaxRPM: 10}},
			Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 2}}},
		})
		first, _ := l.rl.Reserve("a", 1, 1)
		l.comes("a", ratelimit.Request{Model: "a"})
		if r, d := l.rl.Reserve("b", 1, 1); r == nil {
			t.Errorf("%+v, want b beside the one that waits for a", d)
		} else {
			r.Cancel()
		}
		if d := l.rl.Decide("b", 1); !d.Allowed || !l.rl.CanSend("b", 1) {
			t.Errorf("%+v, want b", d)
		}
		l.comes("b0", ratelimit.Request{Model: "b"})
		l.expect("b0")
		l.comes("b1", ratelimit.Request{Model: "b"}) // two are in flight
		l.comes("c", ratelimit.Request{Model: "c"})
		if r, d := l.rl.Reserve("d", 1, 1); r != nil || d.Code != ratelimit.DecisionQueued || d.Pool != "p" {
			t.Errorf("%+v, want the line of the pool", d)
		}
		l.cancelLast()
		l.expect("b0 b1")
		time.Sleep(time.Minute + 1) // a has room, and its waiter came first
		first.Commit(1, 1)
		l.expect("b0 b1 a")
		l.cancelLast()
		l.expect("b0 b1 a c")
		l.wg.Wait()
		for range 2 {
			l.cancelLast()
		}
	})
}

// Each service costs as much with ten thousand waiters for a thousand models of a pool.
func BenchmarkPoolLine(b *testing.B) {
	for _, waiters := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) { servePoolLine(b, waiters) })
	}
}

func servePoolLine(b *testing.B, waiters int) {
	rl := newLimiterWith(b, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1_000_000}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 1}}},
	})
	held, _ := rl.Reserve("m0", 1, 1)
	served := make(chan *ratelimit.Reservation, waiters)
	var all sync.WaitGroup
	wait := func(i int) {
		all.Go(func() {
			r, err := rl.Acquire(b.Context(), fmt.Sprint("m", i%1000), 1, 1)
			if err == nil {
				served <- r
			}
		})
	}
	for i := range waiters {
		wait(i)
	}
	for rl.PoolStats("p").Waiting < waiters {
		time.Sleep(time.Millisecond)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		held.Cancel()
		held = <-served
		wait(i)
	}
	b.StopTimer()
	held.Cancel()
	for range waiters {
		(<-served).Cancel()
	}
	all.Wait()
}

// What a provider reports on a model without a limit of the kind is of the pool that has one, and
// is held back from all its models. A report of a smaller limit is of a bucket that the pool holds
// beside others: that is no reason to stop these.
func TestReportsReachPools(t *testing.T) {
	for _, test := range []struct {
		name   string
		learns bool
		limit  int // that is reported
		ofPool bool
		learnt int // by the model
	}{
		{name: "the pool's limit", limit: 100, ofPool: true},
		{name: "a larger one", limit: 500, ofPool: true},
		{name: "an unknown one", limit: 0, ofPool: true},
		{name: "a smaller one", limit: 20},
		{name: "the pool's limit, learning", learns: true, limit: 100, ofPool: true},
		{name: "a larger one, learning", learns: true, limit: 500, ofPool: true},
		{name: "a smaller one, learning", learns: true, limit: 20, learnt: 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				cfg := ratelimit.Config{
					LearnQuotas: test.learns, Quotas: map[string]ratelimit.ModelQuota{"a": {MaxTPM: 1000}, "b": {MaxTPM: 1000}},
					Pools: map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 100}}},
				}
				shared, _, err := ratelimit.NewOverFake(fake, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer shared.Close()
				for i, rl := range []*ratelimit.RateLimiter{newLimiterWith(t, cfg), shared} {
					rl.RecordUsage("a", 1, 1)
					report := ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: test.limit, HasRemaining: true, Reset: 30 * time.Second}}
					rl.Observe("a", report)
					said := fake.Len()
					rl.Observe("a", report)
					if fake.Len() != said {
						t.Error("the same report again was written")
					}
					if d := rl.Decide("b", 1); d.Allowed == test.ofPool || test.ofPool && (d.Pool != "p" || d.RetryAfter > 31*time.Second) {
						t.Errorf("%d: another model of the pool: %+v", i, d)
					}
					denied := test.ofPool || test.learnt > 0
					if d := rl.Decide("a", 1); d.Allowed == denied {
						t.Errorf("%d: the model: %+v", i, d)
					}
					if got := rl.Stats("a").MaxRPM; got != test.learnt {
						t.Errorf("%d: the model has learnt %d, want %d", i, got, test.learnt)
					}
					if p, _ := rl.Pool("p"); p.Quota.MaxRPM != 100 {
						t.Errorf("%d: the pool has learnt %d", i, p.Quota.MaxRPM)
					}
				}
			})
		})
	}
}

// With several pools that have a limit of the kind nobody knows which one is reported.
func TestReportsOfUnclearPools(t *testing.T) {
	pools := make(map[string]ratelimit.Pool)
	for i := range 2 {
		pools[fmt.Sprint(i)] = ratelimit.Pool{Models: []string{"a", "b"}, Quota: ratelimit.ModelQuota{MaxRPM: 100}}
	}
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}}, Pools: pools})
	rl.Observe("a", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 100, HasRemaining: true}})
	if d := rl.Decide("b", 1); !d.Allowed {
		t.Errorf("%+v", d)
	}
}
