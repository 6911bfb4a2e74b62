package ratelimit_test

import (
	"errors"
	"math/rand/v2"
	"sync"

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
