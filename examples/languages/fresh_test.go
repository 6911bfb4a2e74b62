package main

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/demotest"
)

func TestFreshMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	demotest.Fresh(t, "", "-proxy", program)
}
