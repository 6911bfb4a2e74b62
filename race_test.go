package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/racetest"

// RaceFactor divides the size of tests that compute much, with the race detector.
const RaceFactor = racetest.Factor
