// Package piecetest helps to test readers that take their input in pieces: it cuts an input into
// pieces, measures the memory that reading allocates, and scales tests for the race detector. The
// tests of jsonscan, sse and llmhttp use it; no program does.
package piecetest

import (
	"iter"
	"math/rand/v2"
	"runtime"
)

// Cut yields b in pieces of size bytes; the last one may be shorter.
func Cut(b []byte, size int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// Random returns b in pieces of random sizes from 1 to 40 bytes, short ones more often.
func Random(rng *rand.Rand, b []byte) (pieces [][]byte) {
	for len(b) > 0 {
		n := 1 + rng.IntN(min(len(b), 1+rng.IntN(40)))
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

// Allocated returns the bytes that the program allocates while do runs, whether they are still in
// use or not. Nothing else must run beside it.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
