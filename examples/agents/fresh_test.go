package main

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/demotest"
)

func TestFreshMachine(t *testing.T) { demotest.Fresh(t, "-db") }
