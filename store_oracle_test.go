// Store: several limiters of a store on another machine against one limiter alone, one after the
// other and many goroutines of them at the same time.

package ratelimit_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
)

// Several limiters of one store take random turns. Each of them then says what one limiter alone
// says after all of it.
func TestStoreIsOneLimiter(t *testing.T) {
	overFakes(t, times(24, 2, 2000), func(t *testing.T, seed int, fake *fakestore.Fake) {
		sharedoracle.New(t, storeSetup(seed, fake)).Run(400)
	})
}

// The same where writes fail now and then, before or after they were written. One that failed is
// made again a moment later, and counts as of the time at which it was written first.
func TestStoreIsOneLimiterWhateverFails(t *testing.T) {
	overFakes(t, times(24, 2, 2000), func(t *testing.T, seed int, fake *fakestore.Fake) {
		failures := makeTrouble(seed, fake)
		setup := storeSetup(seed, fake)
		setup.Grain, setup.Near = 701*time.Millisecond, sharedHandOver
		sharedoracle.New(t, setup).Run(400)
		if n := failures(); n < 10 {
			t.Errorf("%d failures", n)
		}
	})
}

// The same with calls that wait, some of them for hours, for several models, and with limits that
// spread calls or that others use, too.
func TestStoreIsOneLimiterWide(t *testing.T) {
	overFakes(t, times(8, 1, 500), func(t *testing.T, seed int, fake *fakestore.Fake) {
		setup := storeSetup(seed, fake)
		setup.Wide, setup.Grain, setup.Near = true, 701*time.Millisecond, sharedHandOver
		setup.Sleep = func(d time.Duration) { time.Sleep(d % (3 * time.Hour)) } // waiters ask now and then
		sharedoracle.New(t, setup).Run(400)
	})
}

// What the limiters of a store say of quotas is what one limiter alone says.
func TestStoreQuotasAreThoseOfOneLimiterWhateverFails(t *testing.T) {
	overFakes(t, times(12, 2, 1000), func(t *testing.T, seed int, fake *fakestore.Fake) {
		makeTrouble(seed, fake)
		sharedoracle.New(t, storeSetup(seed, fake)).RunQuotas(200, false)
	})
}

// storeSetup has limiters share a log in memory as one on another machine.
func storeSetup(seed int, store ratelimit.Store) sharedoracle.Setup {
	return sharedoracle.Setup{
		Seed: uint64(seed),
		Open: func(t *testing.T, _ int, cfg ratelimit.Config) *ratelimit.RateLimiter {
			cfg.Store = store
			rl, err := ratelimit.NewWithConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		},
		Shares: true,
		Near:   time.Microsecond, // a write takes some nanoseconds
		CatchUp: func(t *testing.T, rl *ratelimit.RateLimiter) {
			if err := rl.Persist(); err != nil {
				t.Error(err)
			}
		},
	}
}

// Whatever comes together, no more is admitted than the quotas permit, and all limiters know all
// that was charged.
func TestStoreCrowd(t *testing.T) {
	crowds(t, func(t *testing.T, c *sharedoracle.Crowd) {
		c.Calls = 40
		c.Run(t)
	})
}

// The same over a file, as processes of one machine share it.
func TestSharedCrowd(t *testing.T) {
	needSQLite(t)
	p := &place{kind: inFile, path: filepath.Join(t.TempDir(), "state")}
	synctest.Test(t, func(t *testing.T) {
		setup := storeSetup(0, nil)
		setup.Near = sharedHandOver
		setup.Open = func(t *testing.T, _ int, cfg ratelimit.Config) *ratelimit.RateLimiter { return p.open(t, cfg) }
		(&sharedoracle.Crowd{Setup: setup, Limiters: 3, Goroutines: 5, Calls: times(30, 10, 100)}).Run(t)
	})
}

// Nobody is denied while there is room.
func TestStoreRush(t *testing.T) {
	crowds(t, func(t *testing.T, c *sharedoracle.Crowd) {
		c.Calls = 20
		c.Rush(t)
	})
}

// crowds has crowds of several sizes use a log in memory, at once and with what a network takes.
func crowds(t *testing.T, run func(*testing.T, *sharedoracle.Crowd)) {
	overFakes(t, times(4, 2, 400), func(t *testing.T, seed int, fake *fakestore.Fake) {
		if seed%4 > 0 {
			fake.Before = func(int64) error {
				time.Sleep(time.Duration(rand.IntN(100*(seed%4))) * time.Microsecond)
				return nil
			}
		}
		run(t, &sharedoracle.Crowd{Setup: storeSetup(seed, fake), Limiters: 1 + seed%5, Goroutines: 20})
	})
}

// makeTrouble has one in twenty writes fail before it is made, and as many afterwards: fewer than
// would make the store be away. It returns how many there were.
func makeTrouble(seed int, fake *fakestore.Fake) (failures func() int) {
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	var mu sync.Mutex
	made := 0
	fail := func(when string) func(int64) error {
		return func(int64) error {
			mu.Lock()
			defer mu.Unlock()
			if random.IntN(20) > 0 {
				return nil
			}
			made++
			return errors.New("made up, " + when + " the write")
		}
	}
	fake.Before, fake.After = fail("before"), fail("after")
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return made
	}
}

// failsAtWrite has a store be away from the next write on once the switch that it returns is true.
// Where written is set, the store has that write, and nobody hears of it.
func failsAtWrite(fake *fakestore.Fake, written bool) *atomic.Bool {
	var fails atomic.Bool
	err := errors.New("made up")
	fake.Before = func(int64) error {
		if !fails.Load() {
			return nil
		}
		fake.Fail(err)
		if written {
			return nil
		}
		return err
	}
	fake.After = func(int64) error {
		if fails.Load() {
			return err
		}
		return nil
	}
	fake.AfterRead = fake.After // for those under way, too
	return &fails
}

// A command carries so many requests and no more, and what has more is refused for good before
// anybody hears of it: alone, and in line.
func TestStoreTooManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quotaOfM(ratelimit.ModelQuota{MaxRPM: 1 << 20})
		cfg.OnError = func(err error) { t.Error(err) }
		rl := overStore(t, fakestore.New(), cfg)
		for n, fits := range map[int]bool{256: true, 257: true, 4096: true, 4097: false} {
			reqs := make([]ratelimit.Request, n)
			for i := range reqs {
				reqs[i] = ratelimit.Request{Model: "m", PromptTokens: 1}
			}
			rs, d := rl.ReserveAll(reqs...)
			if rs.Cancel(); len(rs) != n && fits || d.Allowed != fits || d.Never == fits {
				t.Errorf("ReserveAll of %d: %d, %+v", n, len(rs), d)
			}
			rs, err := rl.AcquireAll(t.Context(), reqs...)
			if rs.Cancel(); (err == nil) != fits || !fits && !errors.Is(err, ratelimit.ErrNeverFits) {
				t.Errorf("AcquireAll of %d: %d, %v", n, len(rs), err)
			}
			r, err := rl.AcquireAny(t.Context(), ratelimit.AnyOptions{}, reqs...)
			if r.Cancel(); (err == nil) != (n <= 256) || err != nil && !errors.Is(err, ratelimit.ErrNeverFits) {
				t.Errorf("AcquireAny of %d: %v", n, err)
			}
		}
		if got := rl.Stats("m"); got.RPM != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// What another process has just said is what a reader is told.
func TestStoreSettingsAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		cfg := ratelimit.Config{Providers: []ratelimit.Provider{}, MatchVersions: true}
		a, b := overStore(t, fake, cfg), overStore(t, fake, cfg)
		a.SetClasses(map[string]ratelimit.Class{"c": {Weight: 2}})
		if got := b.Classes()["c"].Weight; got != 2 {
			t.Errorf("Classes: weight %d", got)
		}
		a.SetPool("p", ratelimit.Pool{Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}})
		if got := b.PoolsOf("m"); len(got) != 1 || got[0] != "p" {
			t.Errorf("PoolsOf: %q", got)
		}
		a.SetAccountQuotas(map[string]ratelimit.ModelQuota{"n": {MaxRPM: 3}})
		if got := b.AccountQuotas()["n"].MaxRPM; got != 3 {
			t.Errorf("AccountQuotas: %d", got)
		}
		a.SetQuota("o", ratelimit.ModelQuota{MaxRPM: 4})
		if got := b.CountedAs("o-2026-01-02"); got != "o" {
			t.Errorf("CountedAs: %q", got)
		}
	})
}
