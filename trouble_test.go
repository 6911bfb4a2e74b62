// Shared: a log in memory that conflicts and fails.

package ratelimit_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
)

// trouble counts what was made up.
type trouble struct{ conflicts, failures int }

// makeTrouble has a session's log conflict and fail.
func makeTrouble(s *sharedoracle.Session, fake *fakestore.Fake) *trouble {
	made := new(trouble)
	random := rand.New(rand.NewPCG(s.Random.Uint64(), 7))
	within, session := false, goroutine()
	fake.Before = func(int64) error {
		if goroutine() == session && !s.Calm() && !within {
			within = true
			defer func() { within = false }()
			switch n := random.IntN(60); {
			case n < 20:
				made.conflicts++
				s.Between()
			case n < 22:
				made.failures++
				return errors.New("made up, before the write")
			}
		}
		return nil
	}
	fake.After = func(int64) error {
		if goroutine() == session && !s.Calm() && !within && random.IntN(40) == 0 {
			made.failures++
			return errors.New("made up, after the write")
		}
		return nil
	}
	return made
}

// makeQuotaTrouble has others change quotas before a step is written, and has steps fail.
func makeQuotaTrouble(s *sharedoracle.Session, fake *fakestore.Fake) {
	within, session := false, goroutine()
	fail := func(when string) error {
		if goroutine() == session && !s.Calm() && !within && s.Random.IntN(15) == 0 {
			return errors.New("made up, " + when + " the write")
		}
		return nil
	}
	fake.Before = func(int64) error {
		if goroutine() == session && !s.Calm() && !within && s.Random.IntN(3) == 0 {
			within = true
			defer func() { within = false }()
			s.RequoteBetween()
		}
		return fail("before")
	}
	fake.After = func(int64) error { return fail("after") }
}

// goroutine returns the number of the goroutine that runs. A limiter whose store failed tries it
// again on a goroutine of its own, beside the session: what is random is the session's alone.
func goroutine() string {
	var stack [64]byte
	_, number, _ := strings.Cut(string(stack[:runtime.Stack(stack[:], false)]), " ")
	number, _, _ = strings.Cut(number, " ")
	return number
}
