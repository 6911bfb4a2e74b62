// Store: many goroutines of several limiters at the same time.

package ratelimit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
)

// Whatever comes together, no more is admitted than the quotas permit, and all limiters know all
// that was charged.
func TestStoreCrowd(t *testing.T) {
	crowds(t, func(t *testing.T, c *sharedoracle.Crowd) {
		c.Calls = 40
		c.Run(t)
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
