package accountlimits

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	firstRetry    = time.Second
	lastRetry     = 5 * time.Minute
	maxRetryAfter = 24 * time.Hour
)

// schedule says when a source is read again.
type schedule struct {
	every time.Duration
	retry time.Duration // the last pause after a failure; 0 after a success
}

// pause returns the time until the next read, after one that returned err.
func (s *schedule) pause(err error) time.Duration {
	if err == nil {
		s.retry = 0
		return max(s.every-tenth(s.every), minEvery)
	}
	s.retry = min(max(2*s.retry, firstRetry), lastRetry, s.every)
	pause := s.retry - tenth(s.retry)
	var asks interface{ RetryAfter() time.Duration }
	if errors.As(err, &asks) {
		if asked := min(asks.RetryAfter(), maxRetryAfter); asked > pause {
			pause = asked + tenth(asked) // never sooner than asked
		}
	}
	return pause
}

// tenth returns a random part of d, up to a tenth of it.
func tenth(d time.Duration) time.Duration { return rand.N(d/10 + 1) }
