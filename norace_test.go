//go:build !race

package ratelimit

// RaceFactor divides the size of tests that compute much, with the race detector.
const RaceFactor = 1
