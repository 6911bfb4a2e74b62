//go:build !nosqlite

// Pools of limiters that share a file.

package ratelimit_test

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The pools of the program are those of all limiters of a file; the last one that says something of
// a pool is right, also for whoever opens the file later.
func TestSharedPools(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	open := func(of pools) *ratelimit.RateLimiter {
		return openShared(t, path, func(cfg *ratelimit.Config) {
			cfg.Quotas, cfg.Pools = quotas{"m": {MaxRPM: 50}}, of
		})
	}
	one := open(pools{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 5, MaxInFlight: 2}}})
	two := open(nil)
	r, d := one.Reserve("m", 10, 5)
	if !d.Allowed {
		t.Fatal(d)
	}
	if s := two.PoolStats("p"); s.RPM != 1 || s.InFlight != 1 || s.MaxRPM != 5 || two.Stats("m").InFlight != 1 {
		t.Errorf("the other says %+v", s)
	}
	r2, d := two.Reserve("other", 1, 1)
	if !d.Allowed {
		t.Fatal(d)
	}
	if d = one.Decide("m", 1); d.Code != ratelimit.DecisionInFlightLimit || d.Pool != "p" {
		t.Errorf("%+v", d)
	}
	r.Commit(20, 10)
	r2.Cancel()
	if s := two.PoolStats("p"); s.RPM != 1 || s.TPM != 30 || s.InFlight != 0 {
		t.Errorf("settled %+v", s)
	}
	two.SetPool("p", rpmPool(7, "m"))
	two.SetPool("q", rpmPool(3, "n"))
	three := open(pools{"q": rpmPool(4, "n*")})
	for i, rl := range []*ratelimit.RateLimiter{one, two, three} {
		p, _ := rl.Pool("p")
		q, _ := rl.Pool("q")
		if p.Quota.MaxRPM != 7 || !slices.Equal(p.Models, []string{"m"}) || q.Quota.MaxRPM != 4 || !slices.Equal(q.Models, []string{"n*"}) {
			t.Errorf("limiter %d has %+v and %+v", i, p, q)
		}
		if s := rl.PoolStats("p"); s.RPM != 1 || s.TPM != 30 {
			t.Errorf("limiter %d says %+v", i, s)
		}
	}
	three.RemovePool("p")
	three.RemovePool("none")
	one.SetPool("bad", ratelimit.Pool{Models: []string{"x"}, Quota: ratelimit.ModelQuota{MaxRPM: -1}})
	four := open(nil)
	for i, rl := range []*ratelimit.RateLimiter{one, two, three, four} {
		if _, ok := rl.Pool("p"); ok || rl.PoolStats("p") != (ratelimit.ModelStats{}) {
			t.Errorf("limiter %d still has the pool", i)
		}
		if _, ok := rl.Pool("bad"); ok != (i == 0) {
			t.Errorf("limiter %d: an invalid pool is %t", i, ok)
		}
	}
	one.SetPool("p", rpmPool(1, "m"))
	if s := four.PoolStats("p"); s.RPM != 0 || s.RPD != 0 {
		t.Errorf("a new pool of the name has %+v", s)
	}
}

// What a limiter has open in a pool ends with it, when it is closed and when the program loses it.
func TestSharedPoolSlotsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	open := func() *ratelimit.RateLimiter {
		return openShared(t, path, func(cfg *ratelimit.Config) {
			cfg.Quotas = quotas{"m": {}}
			cfg.Pools = pools{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 1}}, "q": rpmPool(100, "m")}
		})
	}
	one, two := open(), open()
	kept, d := one.Reserve("m", 1, 1)
	if !d.Allowed || two.CanSend("m", 1) {
		t.Fatal(d)
	}
	one.Close()
	if s := two.PoolStats("p"); s.InFlight != 0 || s.RPM != 1 || !two.CanSend("m", 1) {
		t.Errorf("closed: %+v", s)
	}
	runtime.KeepAlive(kept)
	if _, d = two.Reserve("m", 1, 1); !d.Allowed {
		t.Fatal(d)
	}
	three := open()
	for range 400 {
		if runtime.GC(); three.CanSend("m", 1) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, name := range []string{"p", "q"} {
		if s := three.PoolStats(name); s.InFlight != 0 || s.RPM != 2 {
			t.Errorf("abandoned: %s %+v", name, s)
		}
	}
}

func FuzzPoolText(f *testing.F) {
	for _, text := range []string{`{"models":["m"]}`, `{"models":[]}`, `{"models":null,"gone":true}`, `{"gone":true}`, `{"models":["m"],"gone":true}`, `{"model":1}`, `{}x`, ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		models, gone, err := state.ParsePool(text)
		switch {
		case err != nil:
		case gone && len(models) > 0:
			t.Errorf("%q is gone and has %q", text, models)
		case !gone:
			again, err := state.ParseMembers(state.PoolText(models))
			if err != nil || !slices.Equal(again, models) {
				t.Errorf("%q reads %q, then %q, %v", text, models, again, err)
			}
		}
	})
}
