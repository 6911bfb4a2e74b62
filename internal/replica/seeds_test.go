package replica

import (
	"os"
	"strconv"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// seeds returns how many lives of each kind are run: REPLICA_SEEDS, or a few.
func seeds() int {
	if n, err := strconv.Atoi(os.Getenv("REPLICA_SEEDS")); err == nil {
		return n
	}
	return racetest.Times(5, 1, 5)
}

// firstSeed returns the first seed of them: REPLICA_FROM, or 0.
func firstSeed() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("REPLICA_FROM"), 10, 64)
	return n
}
