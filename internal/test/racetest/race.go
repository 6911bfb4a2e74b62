//go:build race

package racetest

// Factor divides the size of tests that compute much: the race detector makes them ten to twenty
// times as slow. The full size runs without it.
const Factor = 16
