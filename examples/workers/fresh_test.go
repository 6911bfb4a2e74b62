package main

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/demotest"
)

func TestFreshMachine(t *testing.T) {
	t.Run("workers", func(t *testing.T) { demotest.Fresh(t, "-db") })
	t.Run("batch", func(t *testing.T) { demotest.Fresh(t, "-db", batchArg) })
}
