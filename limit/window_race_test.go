//go:build race

package limit_test

// windowRaceFactor divides the decisions of the oracles: the race detector makes them
// ten times as slow, and another run goes without it.
const windowRaceFactor = 20
