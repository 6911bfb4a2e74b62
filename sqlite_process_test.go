package ratelimit_test

import (
	"iter"
	"math/rand/v2"
	"os"
	"testing"
)

// sqliteLong reports whether the long form of the tests is asked for.
func sqliteLong() bool { return os.Getenv("RATELIMIT_LONG") != "" }

// sqliteSeeds returns n seeds, which are always the same, and with
// RATELIMIT_LONG fifty times as many others.
func sqliteSeeds(t *testing.T, n uint64) iter.Seq[uint64] {
	first := uint64(0)
	if sqliteLong() {
		first, n = rand.Uint64(), 50*n
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
