//go:build race

package limit_test

// tokenRaceFactor divides the decisions of the oracle: the race detector makes them ten
// times as slow, and another run goes without it.
const tokenRaceFactor = 20
