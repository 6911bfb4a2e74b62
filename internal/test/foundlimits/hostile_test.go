// Limits that are found, of many models, in extreme bounds, and while everything changes.

package foundlimits

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// Each row: a refusal of one name, and what is found of another one then. Each model that is
// counted by itself finds its own limits.
func TestAdaptiveNames(t *testing.T) {
	rate := ratelimit.ModelQuota{AdaptiveFloorRPM: 60}
	cfg := ratelimit.Config{
		MatchVersions: true,
		Aliases:       map[string]string{"fast": "gpt-4o", "faster": "gpt-4o"},
		Quotas:        map[string]ratelimit.ModelQuota{"gpt-4o": rate, "llama-*": rate, "*": rate},
	}
	for _, tt := range []struct {
		refused, asked string
		want           int
	}{
		{"gpt-4o", "gpt-4o", 114},
		{"gpt-4o", "gpt-4o-2024-08-06", 114},
		{"gpt-4o-2024-08-06", "gpt-4o", 114},
		{"openai/gpt-4o", "gpt-4o-2024-08-06", 114},
		{"fast", "gpt-4o", 114},
		{"fast", "faster", 114},
		{"gpt-4o", "fast", 114},
		{"gpt-4o", "gpt-4o-mini", 120}, // another model, of "*"
		{"llama-1", "llama-1", 114},
		{"llama-1", "llama-2", 120},
		{"llama-1", "llama-*", 120},
		{"one", "one", 114},
		{"one", "two", 120},
		{"one", "*", 120},
		{"*", "*", 114},
		{"*", "one", 120},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.With(t, cfg)
			adaptiveRefuse(rl, tt.refused, "rate_limited")
			if got := rl.Stats(tt.asked).AdaptiveRPM; got != tt.want {
				t.Errorf("after a refusal of %q %q has %d, want %d", tt.refused, tt.asked, got, tt.want)
			}
			shared := rl.CountedAs(tt.refused) == rl.CountedAs(tt.asked)
			if shared != (tt.want == 114) {
				t.Fatalf("%q and %q are counted together: %v", tt.refused, tt.asked, shared)
			}
			limitertest.Reserve(t, rl, tt.refused, 0, 0).Commit(0, 0)
			if rl.CanSend(tt.asked, 0) == shared {
				t.Errorf("after a call of %q %q passes: %v", tt.refused, tt.asked, !shared)
			}
		})
	}
}

// Bounds at the end of what an int holds: nothing panics, a limit stays in its bounds, and calls
// pass.
func TestAdaptiveExtremeBounds(t *testing.T) {
	for _, q := range []ratelimit.ModelQuota{
		{AdaptiveCeilingRPM: math.MaxInt}, {AdaptiveFloorRPM: math.MaxInt}, {AdaptiveFloorRPM: math.MaxInt, AdaptiveCeilingRPM: math.MaxInt},
		{AdaptiveFloorRPM: math.MaxInt - 1, AdaptiveCeilingRPM: math.MaxInt}, {AdaptiveFloorRPM: math.MaxInt/2 + 1},
		{AdaptiveFloorRPM: 2_000_000}, {AdaptiveFloorRPM: 1, AdaptiveCeilingRPM: math.MaxInt},
		{AdaptiveCeilingInFlight: math.MaxInt}, {AdaptiveFloorInFlight: math.MaxInt}, {AdaptiveFloorInFlight: math.MaxInt, AdaptiveCeilingInFlight: math.MaxInt},
		{AdaptiveFloorInFlight: 20_000}, {AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: math.MaxInt},
		{AdaptiveFloorRPM: math.MaxInt, AdaptiveFloorInFlight: math.MaxInt, MaxRPM: math.MaxInt, MaxInFlight: math.MaxInt},
		{AdaptiveFloorRPM: 1, AdaptiveCeilingRPM: 1, AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			cfg := ratelimit.Config{FilePath: path, Quotas: map[string]ratelimit.ModelQuota{"m": q}}
			rl, err := ratelimit.NewWithConfig(cfg)
			if err != nil {
				return // it is refused with words, which TestAdaptiveInvalidQuotas reads
			}
			check := func() {
				t.Helper()
				s := rl.Stats("m")
				rates, slots := q.AdaptiveFloorRPM+q.AdaptiveCeilingRPM != 0, q.AdaptiveFloorInFlight+q.AdaptiveCeilingInFlight != 0
				if (s.AdaptiveRPM > 0) != rates || (s.AdaptiveInFlight > 0) != slots || s.AdaptiveRPM < 0 || s.AdaptiveInFlight < 0 {
					t.Fatalf("%+v: %d/%d", q, s.AdaptiveRPM, s.AdaptiveInFlight)
				}
			}
			for range 30 {
				check()
				for range 10 {
					if r, d := rl.Reserve("m", 1, 1); r != nil {
						r.Commit(1, 1)
					} else if d.Never || d.RetryAfter > adaptiveGap(1) || d.RetryAfter <= 0 {
						t.Fatalf("%+v: %+v", q, d)
					}
				}
				time.Sleep(time.Second)
				for range rand.IntN(2) {
					adaptiveRefuse(rl, "m", "rate_limited")
					adaptiveRefuse(rl, "m", "overloaded")
				}
			}
			time.Sleep(adaptiveGap(1))
			limitertest.Reserve(t, rl, "m", 1, 1).Commit(1, 1)
			adaptiveCatchUp(t, rl)
			if err := rl.Load(); err != nil {
				t.Errorf("%+v: %v", q, err)
			}
			check()
		})
	}
}

// Times at the end of what there is do not break what is found.
func TestAdaptiveExtremeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, adaptiveBoth)
		time.Sleep(time.Minute)
		for _, sent := range []time.Time{
			time.Unix(-1<<60, 0), time.Unix(1<<60, 0), time.Unix(0, -1<<63), time.Unix(0, 1<<63-1), {},
			time.Now().Add(time.Hour), time.Now().Add(-290 * 365 * 24 * time.Hour), time.Now().UTC().Round(0),
		} {
			for _, problem := range []string{"rate_limited", "overloaded"} {
				rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{
					Model: "m", Problem: problem, SentAt: sent, RetryAfter: time.Duration(-1 << 63), Status: -math.MaxInt,
				})
			}
			limitertest.Reserve(t, rl, "m", 0, 0).Commit(0, 0)
			s := rl.Stats("m")
			wantBetween(t, fmt.Sprint("the rate after a call that was sent at ", sent), s.AdaptiveRPM, 60, 120)
			wantBetween(t, "the slots", s.AdaptiveInFlight, 10, 20)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(200 * 365 * 24 * time.Hour)
		wantBetween(t, "the rate after 200 years", rl.Stats("m").AdaptiveRPM, 60, 61)
		if n := adaptiveDrive(t, rl, "m", 5*time.Second); n < 5 {
			t.Errorf("after 200 years %d calls pass in 5 s", n)
		}
	})
}

// Many models of "*" take bounded memory and a bounded file, whether they are called or only
// refused, and what was found of those that are used is not lost to the others.
func TestAdaptiveManyModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 50
		cfg := ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state"), MaxModels: most,
			Quotas: map[string]ratelimit.ModelQuota{"*": adaptiveBoth, "own": adaptiveBoth},
		}
		rl := adaptiveOpen(t, cfg)
		adaptiveRefuse(rl, "own", "rate_limited")
		used := limitertest.Reserve(t, rl, "used", 0, 0) // open all the time, so the model is not idle
		time.Sleep(time.Second)
		adaptiveRefuse(rl, "used", "overloaded")
		heap := func() int64 {
			for range 3 { // a reservation that is garbage is freed by the second one, after its finalizer
				runtime.GC()
				runtime.Gosched()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		size := func() int64 {
			adaptiveCatchUp(t, rl)
			info, err := os.Stat(cfg.FilePath)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		names := 0
		more := func(n int) {
			for range n {
				names++
				name := fmt.Sprint("a model with the number ", names)
				adaptiveRefuse(rl, name, "rate_limited")
				adaptiveRefuse(rl, name, "overloaded")
				if names%3 == 0 {
					if r, d := rl.Reserve(name, 0, 0); r != nil {
						r.Commit(0, 0)
					} else if d.Code != ratelimit.DecisionTooManyModels {
						t.Fatalf("%+v", d)
					}
				}
				rl.Stats(name)
				if names%500 == 0 {
					time.Sleep(2 * time.Minute) // the others are idle then
					used.Commit(0, 0)
					used = limitertest.Reserve(t, rl, "used", 0, 0)
				}
			}
		}
		more(1000)
		before, file := heap(), size()
		more(10_000)
		if grown := heap() - before; grown > 1<<20 {
			t.Errorf("10,000 models take %d bytes", grown)
		}
		if now := size(); now > file+file/2+4096 {
			t.Errorf("the file has grown from %d to %d bytes", file, now)
		}
		wantBetween(t, "the rate of a model with a quota of its own, after 44 minutes", rl.Stats("own").AdaptiveRPM, 90, 113)
		wantBetween(t, "the slots of a model that is used", rl.Stats("used").AdaptiveInFlight, 15, 19)
		used.Commit(0, 0)
	})
}

// Everything at the same time: the race detector looks on, and the caps hold.
func TestAdaptiveRace(t *testing.T) {
	t.Parallel()
	rl := limitertest.With(t, ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state"), LearnQuotas: true,
		Quotas: map[string]ratelimit.ModelQuota{
			"m": {AdaptiveFloorRPM: 1_000_000, AdaptiveFloorInFlight: 2, MaxInFlight: 6}, "*": {AdaptiveFloorRPM: 600_000, MaxInFlight: 6},
		},
	})
	var all sync.WaitGroup
	for g := range 8 {
		random := rand.New(rand.NewPCG(23, uint64(g)))
		all.Go(func() {
			for range racetest.Times(80, 40, 20_000) {
				model := []string{"m", "n", fmt.Sprint(random.IntN(30))}[random.IntN(3)]
				switch random.IntN(12) {
				case 0:
					adaptiveRefuse(rl, model, []string{"rate_limited", "overloaded"}[random.IntN(2)])
				case 1:
					rl.SetQuota("m", ratelimit.ModelQuota{AdaptiveFloorRPM: 500_000 + random.IntN(9), AdaptiveFloorInFlight: 1 + random.IntN(5), MaxInFlight: 6})
				case 2:
					rl.Observe(model, ratelimit.ProviderLimits{TPM: ratelimit.ProviderLimit{Limit: 1_000_000_000}})
				case 3:
					rl.ForgetLearned(model)
				case 4:
					if err := rl.Persist(); err != nil {
						t.Error(err)
					}
				case 5:
					_ = rl.Explain(model).String()
				case 6:
					rl.Reset(model)
				default:
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
					if r, err := rl.Acquire(ctx, model, 1, 1); err == nil {
						if n := rl.Stats(model).InFlight; n > 6 {
							t.Errorf("%d calls of %s are in flight", n, model)
						}
						r.Commit(1, 1)
					}
					cancel()
				}
			}
		})
	}
	all.Wait()
	for name, s := range rl.AllStats() {
		if s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A quota whose limits are found allocates no more than one with a burst.
func TestAdaptiveAllocations(t *testing.T) {
	call := func(rl *ratelimit.RateLimiter) float64 {
		return testing.AllocsPerRun(300, func() {
			for !rl.CanSend("m", 1) { // some 60 microseconds
				runtime.Gosched()
			}
			r, _ := rl.Reserve("m", 1, 1)
			r.Commit(1, 1)
		})
	}
	warm := func(quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
		rl := limitertest.Of(t, ratelimit.ModelQuota{MaxRPM: 1_000_000})
		for range 3000 { // so that the storage has grown
			rl.RecordUsage("m", 0, 0)
		}
		rl.SetQuota("m", quota)
		return rl
	}
	for _, tt := range []struct{ finds, bursts ratelimit.ModelQuota }{
		{adaptiveFixed(1_000_000), ratelimit.ModelQuota{MaxRPM: 1_000_000, Burst: time.Second}},
		{
			ratelimit.ModelQuota{AdaptiveFloorRPM: 500_000, AdaptiveFloorInFlight: 5, MaxRPM: 1_000_000, MaxInFlight: 100},
			ratelimit.ModelQuota{MaxRPM: 1_000_000, Burst: time.Second, MaxInFlight: 100},
		},
		{ratelimit.ModelQuota{AdaptiveFloorInFlight: 5}, ratelimit.ModelQuota{MaxInFlight: 100}},
	} {
		rl := warm(tt.finds)
		if n, most := call(rl), call(warm(tt.bursts)); n > most {
			t.Errorf("%+v: Reserve and Commit have %v allocations, with a burst %v", tt.finds, n, most)
		}
		if n := testing.AllocsPerRun(300, func() { rl.CanSend("m", 1); rl.Stats("m") }); n != 0 {
			t.Errorf("%+v: CanSend and Stats have %v allocations", tt.finds, n)
		}
		if n := testing.AllocsPerRun(300, func() {
			adaptiveRefuse(rl, "m", "rate_limited")
			adaptiveRefuse(rl, "m", "overloaded")
		}); n != 0 {
			t.Errorf("%+v: a refusal has %v allocations", tt.finds, n)
		}
	}
	slow := limitertest.Of(t, adaptiveFixed(1))
	slow.RecordUsage("m", 1, 1)
	if d := slow.Decide("m", 1); d.Allowed {
		t.Errorf("after a call: %+v", d)
	} else if n := testing.AllocsPerRun(300, func() { slow.Decide("m", 1) }); n != 0 {
		t.Errorf("a denial has %v allocations", n)
	}
}
