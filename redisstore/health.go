package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/breaker"
)

// brokenFor is how long nothing is asked after the breaker has opened.
const brokenFor = time.Second

// errBroken says that nothing was asked, because too much of what was asked before has failed.
var errBroken = errors.New("too many requests fail, so none is sent for a moment")

// health is what requests to the server have come to. It is safe for concurrent use.
type health struct {
	// breaker counts requests, not calls: those that are made again, those of the background, and
	// those of all limiters of the Store.
	breaker *breaker.Ratio
	last    atomic.Pointer[failure] // that tells why
}

type failure struct {
	err error
	at  time.Time
}

func newHealth() health {
	return health{breaker: breaker.New(breaker.Settings{Open: brokenFor})}
}

// note notes that a request failed.
func (h *health) note(err error, now time.Time) {
	if old := h.last.Load(); tells(err) || old == nil || !tells(old.err) || now.Sub(old.at) > brokenFor {
		h.last.Store(&failure{err, now})
	}
}

// tells reports whether an error says more than that there was no answer in time.
func tells(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// explain adds to an error that tells nothing what requests have failed with since a time.
func (h *health) explain(err error, since time.Time) error {
	if last := h.last.Load(); !tells(err) && last != nil && tells(last.err) && !last.at.Before(since) {
		return fmt.Errorf("%w; a request before failed: %w", err, last.err)
	}
	return err
}

// refusal returns the error for a request that is not made.
func (h *health) refusal() error {
	if last := h.last.Load(); last != nil {
		return fmt.Errorf("%w: %w", errBroken, last.err)
	}
	return errBroken
}
