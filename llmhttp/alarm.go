package llmhttp

import (
	"sync"
	"time"
)

// alarm rings for each flight that was set a fixed time ago and not cleared since. One timer
// is for all of them: to start a timer for each call wakes the thread that waits for the
// network, which takes longer than the rest. The timer runs on while there is nothing to ring
// for, until it would have rung.
type alarm struct {
	after time.Duration
	ring  func(*flight)

	mu          sync.Mutex
	first, last *setting // in the order of their times
	timer       *time.Timer
	runs        bool
}

// setting is when an alarm rings for a flight, and its place in the line.
type setting struct {
	flight     *flight
	at         time.Time
	prev, next *setting
	isSet      bool
}

// set makes the alarm ring for s from now on, and not when it was set to before.
func (a *alarm) set(s *setting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(s)
	s.at, s.isSet = time.Now().Add(a.after), true
	if s.prev = a.last; s.prev != nil {
		s.prev.next = s
	} else {
		a.first = s
	}
	a.last = s
	if a.runs {
		return
	}
	a.runs = true
	if a.timer == nil {
		a.timer = time.AfterFunc(a.after, a.rings)
	} else {
		a.timer.Reset(a.after)
	}
}

// clear makes the alarm not ring for s.
func (a *alarm) clear(s *setting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(s)
}

func (a *alarm) removeLocked(s *setting) {
	if !s.isSet {
		return
	}
	s.isSet = false
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		a.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		a.last = s.prev
	}
	s.prev, s.next = nil, nil
}

// rings is what the timer calls.
func (a *alarm) rings() {
	a.mu.Lock()
	now := time.Now()
	var due []*flight
	for a.first != nil && !a.first.at.After(now) {
		due = append(due, a.first.flight)
		a.removeLocked(a.first)
	}
	if a.runs = a.first != nil; a.runs {
		a.timer.Reset(a.first.at.Sub(now))
	}
	a.mu.Unlock()
	for _, f := range due {
		a.ring(f)
	}
}
