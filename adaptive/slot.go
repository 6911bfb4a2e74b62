package adaptive

import "time"

// Release is ReleaseAt time.Now.
func (s Slot) Release() { s.ReleaseAt(time.Now()) }

// ReleaseAt gives the slot back. It is for every call that did not meet an overloaded provider:
// one that was answered, and one that was refused for any reason but load.
func (s Slot) ReleaseAt(now time.Time) {
	c := s.of
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.beginLocked(now)
	if _, ok := c.putLocked(s); !ok {
		return
	}
	if c.search.Ended(at); c.search.Ready(at) {
		c.search.Raise(at)
	}
	c.serveLocked(at)
}

// Overloaded is OverloadedAt time.Now.
func (s Slot) Overloaded(retryAfter time.Duration) (lowered bool) {
	return s.OverloadedAt(time.Now(), retryAfter)
}

// OverloadedAt gives the slot back, and tells that the provider was overloaded: 503, 529, no
// connection, or no answer in time. It reports whether the limit was lowered: overload within
// the cool-down, and that of calls which took their slot before the limit was last lowered,
// lowers nothing. In either case the window is not clean, and for retryAfter, and up to an
// eighth of it and a second longer, no slot is given. A retryAfter that is not positive says
// nothing.
func (s Slot) OverloadedAt(now time.Time, retryAfter time.Duration) (lowered bool) {
	c := s.of
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.beginLocked(now)
	since, ok := c.putLocked(s)
	if !ok {
		return false
	}
	if wait := (Refusal{RetryAfter: retryAfter}).wait(); wait > 0 {
		c.gate = max(c.gate, at+wait+c.search.chance.below(min(wait/8, maxSpread)))
	}
	lowered = c.search.overloadedUntil(at, sub(at, since), max(at, c.gate))
	c.serveLocked(at)
	return lowered
}

// ConcurrencyState is what a Concurrency has found, in whole numbers, to be kept while the
// program is not running. The zero ConcurrencyState is nothing.
type ConcurrencyState struct {
	// Slots is the limit, in thousandths of a call in flight.
	Slots int64 `json:"slots"`
	// Knee is the limit at which the provider was last overloaded, in thousandths, and 0 if
	// that is not known.
	Knee int64 `json:"knee,omitzero"`
	// At is when the state was read, in nanoseconds since 1970.
	At int64 `json:"at"`
	// Step, Raised, Streak and Lowered are as in SearchState. They count for a minute.
	Step    int64 `json:"step,omitzero"`
	Raised  int64 `json:"raised,omitzero"`
	Streak  int64 `json:"streak,omitzero"`
	Lowered int64 `json:"lowered,omitzero"`
}

// State is StateAt time.Now.
func (c *Concurrency) State() ConcurrencyState { return c.StateAt(time.Now()) }

// StateAt returns what was found until now.
func (c *Concurrency) StateAt(now time.Time) ConcurrencyState {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.search.State(c.time.at(now))
	return ConcurrencyState{
		Slots: found.Level, Knee: found.Knee, At: now.UnixNano(),
		Step: found.Step, Raised: found.Raised, Streak: found.Streak, Lowered: found.Lowered,
	}
}

// Restore makes what was found before the limit again, aged as by Rate.Restore. Values out of
// range are brought into it, and the zero ConcurrencyState changes nothing.
func (c *Concurrency) Restore(s ConcurrencyState, now time.Time) {
	if s.Slots < 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.beginLocked(now)
	lowered := c.search.lowered
	c.search.resume(SearchState{
		Level: s.Slots, Knee: s.Knee, Step: s.Step, Raised: s.Raised, Streak: s.Streak, Lowered: s.Lowered,
	}, at, sub(now.UnixNano(), s.At))
	c.search.lowered = max(c.search.lowered, lowered) // calls from before either are late
	c.search.open(max(at, c.gate))
	c.serveLocked(at)
}
