package keyedtest_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

func TestOrigin(t *testing.T) {
	keyedtest.ExerciseOrigin(t, func(*testing.T) keyed.Origin { return keyedtest.NewOrigin() })
}

func TestExchange(t *testing.T) {
	keyedtest.ExerciseExchange(t, func(*testing.T) keyed.Exchange { return keyedtest.NewExchange() })
}
