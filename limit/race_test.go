package limit_test

import "dappco.re/go/core/go-ratelimit/internal/racetest"

// raceFactor divides the decisions of the oracles under the race detector.
const raceFactor = racetest.Factor
