// Package keyedtest has an Origin and an Exchange in memory, for tests and examples, that can be
// told to be slow, to fail, to hang and to lose replies; and the tests that every implementation of
// keyed.Origin and keyed.Exchange must pass.
package keyedtest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLost is the error of a call that took effect, but whose reply got lost.
var ErrLost = errors.New("reply lost")

// Faults is how an Origin or an Exchange of this package misbehaves. The zero Faults is none.
type Faults struct {
	Delay time.Duration // of each call: half before it takes effect, and half after that
	Err   error         // calls return it, and take no effect
	Hang  bool          // calls wait until their context ends, and take no effect
	Lose  bool          // calls take effect, and return ErrLost
	Panic any           // calls panic with it, and take no effect
}

// network is what calls go through. Its methods are safe for concurrent use.
type network struct {
	mu     sync.Mutex
	faults Faults
	calls  map[string]int // by the method's name
}

// Set sets how calls that begin from now on misbehave. It is safe for concurrent use.
func (n *network) Set(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Calls returns how many calls of a method, such as "Read", have begun, whether they succeeded or
// not. It is safe for concurrent use.
func (n *network) Calls(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

func (n *network) begin(method string) Faults {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls == nil {
		n.calls = map[string]int{}
	}
	n.calls[method]++
	return n.faults
}

// call has effect take place as the faults say.
func (n *network) call(ctx context.Context, method string, effect func()) error {
	f := n.begin(method)
	if err := wait(ctx, f.Delay/2); err != nil {
		return err
	}
	switch {
	case f.Panic != nil:
		panic(f.Panic)
	case f.Hang:
		<-ctx.Done()
		return ctx.Err()
	case f.Err != nil:
		return f.Err
	}
	effect()
	if err := wait(ctx, f.Delay-f.Delay/2); err != nil {
		return err
	}
	if f.Lose {
		return ErrLost
	}
	return nil
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
