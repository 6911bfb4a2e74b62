//go:build race

package limit_test

// raceEnabled tells tests that compute much to be smaller: the race detector makes them
// ten times as slow, and another run goes without it.
const raceEnabled = true
