//go:build race

package racetest

// Factor divides the size of tests that compute much: the race detector makes them ten
// times as slow, and another run goes without it.
const Factor = 5
