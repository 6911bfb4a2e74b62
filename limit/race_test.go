//go:build race

package limit_test

// raceFactor divides the decisions of the oracles: the race detector makes them ten to
// twenty times as slow, and another run goes without it.
const raceFactor = 20
