package notice

import (
	"strings"
	"sync"
	"time"
)

const (
	firstOfStorm = 10          // of a subject in a period
	stormPeriod  = time.Minute // in which they are counted
	stormKeys    = 128
)

// Storm takes samples where many come in a short time, and all where few do: of each subject the
// first ten in a minute, and then one of every so many. It tells 128 subjects in a minute apart;
// all others are counted together, and so are those of more than 256 bytes. A Storm is safe for
// concurrent use.
type Storm struct {
	every int

	mu     sync.Mutex
	began  time.Time              // the period
	seen   map[string]*stormCount // in it
	untold int                    // that were not taken in periods before
}

type stormCount struct{ all, left int }

// NewStorm returns a Storm that takes one of every so many; all of them for 1 and less.
func NewStorm(every int) *Storm {
	return &Storm{every: max(every, 1), seen: make(map[string]*stormCount)}
}

// Take reports whether one of a subject is taken, and how many were not before it that no other one
// has told of. A nil Storm takes all.
func (s *Storm) Take(subject string) (take bool, leftOut int) {
	if s == nil {
		return true, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.began) >= stormPeriod {
		for _, c := range s.seen {
			s.untold += c.left
		}
		s.began = now
		clear(s.seen)
	}
	c := s.seen[subject]
	if c == nil {
		if len(subject) > mostBytes || len(s.seen) >= stormKeys {
			subject = ""
		}
		if c = s.seen[subject]; c == nil {
			c = new(stormCount)
			s.seen[strings.Clone(subject)] = c
		}
	}
	if c.all++; c.all > firstOfStorm && (c.all-firstOfStorm)%s.every != 0 {
		c.left++
		return false, 0
	}
	leftOut = c.left + s.untold
	c.left, s.untold = 0, 0
	return true, leftOut
}
