//go:build race

package ratelimit_test

// yamlRaceFactor divides the size of large tests: the race detector makes them
// ten times as slow, and another run goes without it.
const yamlRaceFactor = 8
