//go:build !race

package ratelimit_test

const yamlRaceFactor = 1
