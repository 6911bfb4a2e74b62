package main

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/demotest"
)

func TestFreshMachine(t *testing.T) { demotest.Fresh(t, "") }
