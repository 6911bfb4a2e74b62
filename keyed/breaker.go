package keyed

import (
	"sync"
	"time"
)

const (
	// breakerWindow is the time over which calls count, and breakerOpen how long the breaker
	// stays open.
	breakerWindow = 5 * time.Second
	breakerOpen   = 5 * time.Second
	// breakerCalls is the number of calls from which on the breaker opens, if at least half of
	// them failed. breakerMost bounds the calls that it remembers.
	breakerCalls = 20
	breakerMost  = 1024
)

// breaker tells when not to call what fails: it opens when, of at least 20 calls of the last 5 s,
// half failed. After 5 s it lets one call pass, and closes if that succeeds. Instants are in Unix
// nanoseconds of request time. It is safe for concurrent use.
type breaker struct {
	mu       sync.Mutex
	calls    []call // of the last 5 s, in the order of their ends
	failures int    // of calls
	open     bool
	until    int64     // if open, when one call may pass
	wall     time.Time // if open, until by the clock of this process
	probing  bool      // if open, whether it has passed
}

type call struct {
	at     int64
	failed bool
}

// allow reports whether a call may be made. Every call that is allowed must be recorded.
func (b *breaker) allow(at int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return true
	}
	if b.probing || uint64(b.until-at-1) < 2*uint64(breakerOpen) {
		return false
	}
	b.probing = true
	return true
}

// rest returns how long the breaker stays open by the clock of this process, or 0.
func (b *breaker) rest(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return 0
	}
	return max(b.wall.Sub(now), 0)
}

// record records how a call ended.
func (b *breaker) record(at int64, now time.Time, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		switch {
		case !b.probing: // a call from before it opened
		case failed:
			b.openLocked(at, now)
		default:
			b.open = false
		}
		return
	}
	b.forgetLocked(at)
	b.calls = append(b.calls, call{at, failed})
	if failed {
		b.failures++
	}
	if len(b.calls) >= breakerCalls && 2*b.failures >= len(b.calls) {
		b.openLocked(at, now)
	}
}

func (b *breaker) openLocked(at int64, now time.Time) {
	b.calls, b.failures, b.probing = nil, 0, false
	b.open, b.until, b.wall = true, at+int64(breakerOpen), now.Add(breakerOpen)
}

// forgetLocked forgets the calls that do not count at an instant any more.
func (b *breaker) forgetLocked(at int64) {
	n := 0
	for n < len(b.calls) {
		c := b.calls[n]
		if age := at - c.at; age < int64(breakerWindow) && age > -int64(breakerWindow) && len(b.calls)-n < breakerMost {
			break
		}
		if c.failed {
			b.failures--
		}
		n++
	}
	b.calls = b.calls[n:]
}
