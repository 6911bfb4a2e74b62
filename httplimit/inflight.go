package httplimit

import "sync"

// Slots counts the requests of each key that are served, for Options.InFlight. Handlers with the
// same Slots count together. It keeps only keys that have some, so it never has more entries than
// the server has open requests. Make it with NewSlots. It is safe for concurrent use.
type Slots struct {
	mu    sync.Mutex // held for a look at the map, which is little beside a request
	taken map[string]int
}

// NewSlots returns Slots of which none are taken.
func NewSlots() *Slots { return &Slots{taken: make(map[string]int)} }

// take takes a slot of the key if fewer than most are taken, and returns how many are then.
func (s *Slots) take(key string, most int) (taken int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken = s.taken[key]
	if taken >= most {
		return taken, false
	}
	taken++
	s.taken[key] = taken
	return taken, true
}

// give gives a slot back.
func (s *Slots) give(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[key]--; s.taken[key] <= 0 {
		delete(s.taken, key)
	}
}
