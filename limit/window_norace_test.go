//go:build !race

package limit_test

// windowRaceFactor divides the decisions of the oracles, with the race detector.
const windowRaceFactor = 1
