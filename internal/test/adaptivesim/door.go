package adaptivesim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Door is a Provider for callers with a clock of their own, in place of those of a Run. It is
// safe for concurrent use.
type Door struct {
	mu       sync.Mutex
	provider *provider
}

// Reply is what a Provider decides on a call that arrives.
type Reply struct {
	Outcome Outcome
	// Takes is how long the answer, or the refusal, takes to come back.
	Takes time.Duration
	// RetryAfter is what it says, if Provider.RetryAfter is set: whole seconds, rounded up.
	RetryAfter time.Duration
	// Reset is when there is room for a call again, exactly. It is 0 unless the call was Refused.
	Reset time.Duration
}

// NewDoor returns a Provider at its beginning.
func NewDoor(p Provider, seed uint64) *Door {
	return &Door{provider: newProvider(p, rand.New(rand.NewPCG(seed, 21)))}
}

// Trip returns how long a call takes to arrive.
func (d *Door) Trip() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.provider.trip()
}

// Arrive decides on a call that arrives, by the time since the beginning, which must not go
// back by much. Left must follow when a call that is Answered has ended.
func (d *Door) Arrive(at time.Duration) Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.provider.arrive(max(at, d.provider.at))
}

// Left says that a call that is Answered has ended.
func (d *Door) Left() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.provider.inFlight--
}
