package redislimit

import (
	"errors"
	"fmt"
	"math"
)

// Failure is what a limiter does when Redis gives no answer. The zero value is FailClosed. The
// others are FailOpen and what Local returns.
type Failure int64

const (
	// FailClosed refuses, with an error that matches ErrUnavailable.
	FailClosed Failure = 0
	// FailOpen admits what a new limiter would admit, without an error.
	FailOpen Failure = -1
)

// Local has each process decide by itself, without an error, with a share of the limit, and of the
// rate, above 0 and at most 1: with ten processes, Local(0.1) keeps them within the limit together.
// The share of the limit is rounded down, but at least 1. What was charged so is not told to Redis
// when that is back. Constructors refuse any other share.
func Local(share float64) Failure {
	if !(share > 0 && share <= 1) {
		return invalidShare
	}
	return max(1, Failure(math.Round(share*wholeShare)))
}

// A Failure above 0 is the share of Local in millionths.
const (
	wholeShare   = 1_000_000
	invalidShare = Failure(math.MinInt64)
)

// ErrUnavailable is matched by the errors of FailClosed, and of Commit and Cancel of a Hold, when
// Redis gives no answer.
var ErrUnavailable = errors.New("redis is unavailable")

// errOpen tells that the breaker is open.
var errOpen = fmt.Errorf("%w: too many calls have failed", ErrUnavailable)

func (f Failure) validate() error {
	if f < FailOpen || f > wholeShare {
		return errors.New("OnFailure is none of FailClosed, FailOpen and Local of a share above 0 and at most 1")
	}
	return nil
}

// of returns the share of n units, at least 1.
func (f Failure) of(n int) int {
	whole, rest := int64(n)/wholeShare, int64(n)%wholeShare // their products do not overflow
	return int(max(1, whole*int64(f)+rest*int64(f)/wholeShare))
}
