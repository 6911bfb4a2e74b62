//go:build !race

package limit_test

// tokenRaceFactor divides the decisions of the oracle, with the race detector.
const tokenRaceFactor = 1
