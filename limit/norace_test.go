//go:build !race

package limit_test

// raceFactor divides the decisions of the oracles, with the race detector.
const raceFactor = 1
