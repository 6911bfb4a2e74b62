// Package racetest tells tests how much smaller to be under the race detector. Only tests
// import it.
package racetest
