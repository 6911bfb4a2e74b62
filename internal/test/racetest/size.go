package racetest

import (
	"iter"
	"math/rand/v2"
	"os"
	"testing"
)

// Long reports whether the long form of the tests is asked for.
func Long() bool { return os.Getenv("RATELIMIT_LONG") != "" }

// Times is how often a test does something: usual in the usual run, at least least under the race
// detector, which makes it ten times as slow, least with -short, and long with RATELIMIT_LONG.
func Times(usual, least, long int) int {
	switch {
	case Long():
		return long
	case testing.Short():
		return min(usual, least)
	}
	return min(usual, max(least, usual/Factor))
}

// Seeds returns n seeds, two at most under the race detector and four with -short, which are always
// the same, and with RATELIMIT_LONG two hundred times as many others.
func Seeds(t *testing.T, n uint64) iter.Seq[uint64] {
	first := uint64(0)
	switch {
	case Factor > 1:
		n = min(n, 2)
	case testing.Short():
		n = min(n, 4)
	}
	if Long() {
		first, n = rand.Uint64(), 200*n
		t.Logf("seeds from %d", first)
	}
	return func(yield func(uint64) bool) {
		for i := range n {
			if !yield(first + i) {
				return
			}
		}
	}
}
