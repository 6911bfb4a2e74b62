package proxy

import (
	"errors"
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit"
)

// room bounds what waits: the calls in line, and the bytes of all bodies that are not sent yet.
type room struct {
	maxWaiting int
	maxBytes   int64

	waiting atomic.Int64
	bytes   atomic.Int64
}

// errNoRoom ends the wait of a call that found no room to wait in.
var errNoRoom = errors.New("too many calls or bytes wait already")

// place is the part of a call in a room.
type place struct {
	in *room

	mu      sync.Mutex
	bytes   int64
	waiting bool
	gone    bool                // it is sent, or over
	refused *ratelimit.Decision // why it had to wait, where there was no room for it
}

// hold takes room for more bytes of the body, and reports whether there was any.
func (p *place) hold(n int) bool {
	if p.in.bytes.Add(int64(n)) > p.in.maxBytes {
		p.in.bytes.Add(-int64(n))
		return false
	}
	p.bytes += int64(n)
	return true
}

// enter takes a place in line, and reports whether there was one.
func (p *place) enter(why *ratelimit.Decision) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting || p.gone {
		return true
	}
	if p.in.waiting.Add(1) > int64(p.in.maxWaiting) {
		p.in.waiting.Add(-1)
		p.refused = &ratelimit.Decision{}
		if why != nil {
			*p.refused = *why
		}
		return false
	}
	p.waiting = true
	return true
}

// isWaiting reports whether the call stands in line.
func (p *place) isWaiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// leave gives everything back. A call that comes again, as one that is tried again does, takes no
// room any more.
func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting {
		p.in.waiting.Add(-1)
	}
	if !p.gone {
		p.in.bytes.Add(-p.bytes)
	}
	p.waiting, p.gone = false, true
}
