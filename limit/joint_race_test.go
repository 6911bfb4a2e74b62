//go:build race

package limit_test

const groupRace = true
