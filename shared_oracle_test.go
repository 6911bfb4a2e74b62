//go:build !nosqlite

// Shared: several limiters of a file against one limiter alone.

package ratelimit_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
)

// Several limiters of one file take random turns. Each of them then says what one limiter alone
// says after all of it.
func TestSharedIsOneLimiter(t *testing.T) {
	t.Parallel()
	for seed := range times(5, 1, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			setup := sharedSetup(seed, filepath.Join(t.TempDir(), "state.db"))
			synctest.Test(t, func(t *testing.T) { sharedoracle.New(t, setup).Run(400) })
		})
	}
}

// The same over a log in memory, where each Commit conflicts with a probability of 1/3 with the
// step of another limiter that comes in between, and fails with a probability of 1/20, before or
// after it was written.
func TestSharedIsOneLimiterWhateverConflicts(t *testing.T) {
	overFakes(t, times(24, 5, 2000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		s := sharedoracle.New(t, fakeSetup(seed, fake))
		trouble := makeTrouble(s, fake)
		s.Run(400)
		if trouble.conflicts < 50 || trouble.failures < 2 { // 2 of 2,000 seeds have 4 failures
			t.Errorf("%d conflicts, %d failures", trouble.conflicts, trouble.failures)
		}
	})
}

// sharedSetup has limiters share a file.
func sharedSetup(seed int, path string) sharedoracle.Setup {
	return sharedoracle.Setup{
		Seed: uint64(seed),
		Open: func(t *testing.T, _ int, cfg ratelimit.Config) *ratelimit.RateLimiter {
			cfg.Shared = true
			rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		},
	}
}

// fakeSetup has limiters share a log in memory, as they share a file.
func fakeSetup(seed int, fake *sharedlogtest.Fake) sharedoracle.Setup {
	return sharedoracle.Setup{
		Seed: uint64(seed),
		Open: func(t *testing.T, _ int, cfg ratelimit.Config) *ratelimit.RateLimiter {
			rl, _, err := ratelimit.NewOverFake(fake, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		},
	}
}
