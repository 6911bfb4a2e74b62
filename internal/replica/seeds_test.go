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
