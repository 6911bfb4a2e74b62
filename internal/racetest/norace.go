//go:build !race

package racetest

// Factor divides the size of tests that compute much, with the race detector.
const Factor = 1
