//go:build race

package piecetest

// RaceFactor divides the size of tests that compute much. With the race detector, which makes
// them ten times as slow, it is 16: the full size runs without.
const RaceFactor = 16
