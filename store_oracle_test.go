// Store: several limiters of a store on another machine against one limiter alone.

package ratelimit_test

import (
	"testing"
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
