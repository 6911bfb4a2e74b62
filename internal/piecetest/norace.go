//go:build !race

package piecetest

// RaceFactor divides the size of tests that compute much. Without the race detector it is 1.
const RaceFactor = 1
