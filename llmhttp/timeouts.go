package llmhttp

import (
	"sync"
	"time"
)

// timeouts calls fire for each flight a fixed time after its timeout was started, unless that was
// stopped before. One timer serves all flights: starting one for each call would wake the thread
// that waits for the network, which costs more than everything else here. The timer keeps running
// when the last timeout is stopped, until it would have fired. after and fire are set before the
// first use.
type timeouts struct {
	after time.Duration
	fire  func(*flight) // without the lock held

	mu          sync.Mutex
	first, last *timeout // in the order of their times
	timer       *time.Timer
	running     bool
}

// timeout is the entry of a flight in timeouts. It is guarded by the lock of these.
type timeout struct {
	flight     *flight
	at         time.Time
	prev, next *timeout
	started    bool
}

// start makes e fire after the fixed time from now. A timeout that is running starts anew.
func (t *timeouts) start(e *timeout) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(e)
	e.at, e.started = time.Now().Add(t.after), true
	if e.prev = t.last; e.prev != nil {
		e.prev.next = e
	} else {
		t.first = e
	}
	t.last = e
	if t.running {
		return
	}
	t.running = true
	if t.timer == nil {
		t.timer = time.AfterFunc(t.after, t.fireDue)
	} else {
		t.timer.Reset(t.after)
	}
}

// stop keeps e from firing.
func (t *timeouts) stop(e *timeout) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(e)
}

func (t *timeouts) removeLocked(e *timeout) {
	if !e.started {
		return
	}
	e.started = false
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		t.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		t.last = e.prev
	}
	e.prev, e.next = nil, nil
}

// fireDue runs when the timer expires.
func (t *timeouts) fireDue() {
	t.mu.Lock()
	now := time.Now()
	var due []*flight
	for t.first != nil && !t.first.at.After(now) {
		due = append(due, t.first.flight)
		t.removeLocked(t.first)
	}
	if t.running = t.first != nil; t.running {
		t.timer.Reset(t.first.at.Sub(now))
	}
	t.mu.Unlock()
	for _, f := range due {
		t.fire(f)
	}
}
