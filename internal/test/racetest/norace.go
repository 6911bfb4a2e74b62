//go:build !race

package racetest

// Factor divides the size of tests that compute much. Without the race detector it is 1.
const Factor = 1
