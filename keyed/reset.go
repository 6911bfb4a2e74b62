package keyed

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrShared is returned by Reset with an Origin or an Exchange.
var ErrShared = errors.New("counts that are shared only grow")

// Reset is ResetAt at time.Now.
func (l *Limiter) Reset(namespace, key string, window time.Duration) error {
	return l.ResetAt(time.Now(), namespace, key, window)
}

// ResetAt begins a counter anew in the cell of now: what it was charged is forgotten, and also that
// it may have been evicted. Open Holds stay, with their units. On a counter without units it does
// nothing.
//
// ResetAt returns an error that matches ErrInvalid or ErrClosed as TakeAt does, ErrFull if a key
// that may have been evicted finds no room, and ErrShared with an Origin or an Exchange: what those
// have counted cannot be taken back, and other processes would go on to count it.
func (l *Limiter) ResetAt(now time.Time, namespace, key string, window time.Duration) error {
	const operation = "reset"
	r := Request{Namespace: namespace, Key: key, Limit: 1, Window: window, Cost: Free}
	if err := l.check(operation, &r); err != nil {
		return err
	}
	if l.remote != nil {
		return fmt.Errorf("%s: %w", operation, ErrShared)
	}
	if d, _ := l.admit(context.Background(), now, &r, resetting); !d.OK {
		return fmt.Errorf("%s: %w", operation, ErrFull)
	}
	return nil
}
