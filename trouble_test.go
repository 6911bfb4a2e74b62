package ratelimit_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

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
