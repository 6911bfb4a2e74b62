package replica

import (
	"runtime"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// inbox are the asks of callers that have no number yet. Callers need no other lock, so that the
// many do not stand in the way of the one that sends.
type inbox struct {
	mu     sync.Mutex
	asks   []*ask
	closed bool // nobody will answer any more
}

// add reports whether nobody has been told to look for those that are there.
func (in *inbox) add(a *ask) (first bool, err error) {
	if c, _ := a.command.(fleet.Verb); engine.IsTooLarge(c.Command) {
		return false, engine.ErrTooMany
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false, ErrClosed
	}
	in.asks = append(in.asks, a)
	return len(in.asks) == 1, nil
}

// gather lets others run, a few times, until as many have asked as were answered, or no more come.
func (in *inbox) gather(answered int) {
	if answered < 2 {
		return
	}
	for was, left := -1, 4; left > 0; left-- {
		runtime.Gosched()
		in.mu.Lock()
		n := len(in.asks)
		in.mu.Unlock()
		if n >= answered || n <= was {
			return
		}
		was = n
	}
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}

// take numbers what callers have asked. While the log is away it is decided at once.
func (r *Replica) take() {
	r.inbox.mu.Lock()
	asks := r.inbox.asks
	r.inbox.asks = nil
	r.inbox.mu.Unlock()
	for _, a := range asks {
		if r.number(a); r.status == cutOff {
			r.decideAlone(a)
		}
	}
}
