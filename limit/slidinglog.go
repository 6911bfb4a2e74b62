package limit

import (
	"sync"
	"time"
)

// SlidingLog admits up to limit units in any time as long as the window, and is exact: it
// remembers each charge until its age reaches the window. Charges at a and at a+window, to
// the nanosecond, are not in one window.
//
// It gives up memory: 16 bytes for each charge in the window, of which there are up to
// limit. The log begins with room for 64 charges, grows by doubling, and keeps its memory.
// A decision takes time logarithmic in the number of charges. It follows the monotonic
// clock.
//
// An instant before the latest charge or hold counts as that one. Make it with
// NewSlidingLog: the zero SlidingLog must not be used. It is safe for concurrent use.
type SlidingLog struct {
	caller
	mu     sync.Mutex
	limit  int
	window int64 // nanoseconds
	begun  bool
	origin time.Time // entries and holds are nanoseconds since
	latest int64     // the latest charge or hold
	log    ring      // the charges in the window at latest; with the holds at most limit
	holds  holds[struct{}]
}

// firstEntries is how many entries a new log has room for.
const firstEntries = 64

// NewSlidingLog returns an empty SlidingLog. It returns an error that matches ErrInvalid
// for a limit or a window that is not positive, and for a window above 36 years.
func NewSlidingLog(limit int, window time.Duration) (*SlidingLog, error) {
	if err := validateWindow("new sliding log", limit, window); err != nil {
		return nil, err
	}
	s := &SlidingLog{limit: limit, window: int64(window)}
	s.log.entries = make([]record, min(limit, firstEntries))
	s.init(s)
	return s, nil
}

// moment is where an instant lies on the line. An instant before the latest lies where that
// does.
type moment struct {
	at     int64
	behind time.Duration // how far the instant is before the latest
	live   int           // the first entry that is in the window
	used   int           // units in the window
}

// atLocked returns the moment of an instant, and moves nothing: a request that charges
// nothing leaves no trace.
func (s *SlidingLog) atLocked(now time.Time) (m moment) {
	if !s.begun {
		return m
	}
	m.at = min(int64(now.Sub(s.origin)), 2*far) // so ages fit an int64; at 2*far all have left
	if m.at < s.latest {
		m.behind = s.origin.Add(time.Duration(s.latest)).Sub(now)
		m.at = s.latest
	}
	m.live = s.log.after(m.at - s.window)
	m.used = s.log.since(m.live)
	return m
}

func (s *SlidingLog) decideLocked(now time.Time, n int) (d Decision, m moment) {
	m = s.atLocked(now)
	unheld := s.limit - s.holds.units
	remaining := unheld - m.used
	switch {
	case n < 0 || n > s.limit:
		d.Never = true
	case n > unheld: // only the end of a hold helps
	case n > remaining:
		last := s.log.get(s.log.reaching(m.live, n-remaining))
		d.RetryAfter = sum(time.Duration(last.at+s.window-m.at), m.behind)
	default:
		d.OK = true
		remaining -= n
	}
	d.Remaining = remaining
	if d.OK && n > 0 {
		d.ResetAfter = sum(time.Duration(s.window), m.behind)
	} else if m.used > 0 {
		newest := s.log.get(s.log.n - 1)
		d.ResetAfter = sum(time.Duration(newest.at+s.window-m.at), m.behind)
	}
	return d, m
}

// moveLocked makes m, the moment of now, the latest, and returns where it lies then.
func (s *SlidingLog) moveLocked(now time.Time, m moment) int64 {
	s.log.forget(m.live)
	switch {
	case !s.begun:
		s.origin, s.begun = now, true
	case m.at >= far:
		// The line begins anew once in 73 years, so that its numbers stay small.
		for i := range s.log.n {
			s.log.get(i).at -= m.at
		}
		for i := range s.holds.open {
			o := &s.holds.open[i]
			o.at = max(o.at-m.at, -far)
		}
		s.origin, m.at = now, 0
	}
	s.latest = m.at
	return m.at
}

// TakeAt charges n units at now if all of them may pass.
func (s *SlidingLog) TakeAt(now time.Time, n int) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, m := s.decideLocked(now, n)
	if d.OK && n > 0 {
		s.log.insert(s.moveLocked(now, m), n, s.limit)
	}
	return d
}

func (s *SlidingLog) peekAt(now time.Time, n int) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, _ := s.decideLocked(now, n)
	return d
}

// HoldAt sets n units aside if all of them may pass.
func (s *SlidingLog) HoldAt(now time.Time, n int) (Hold, Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, m := s.decideLocked(now, n)
	if !d.OK || n == 0 {
		return Hold{}, d
	}
	id := s.holds.add(s.moveLocked(now, m), n, struct{}{})
	d, _ = s.decideLocked(now, 0)
	return Hold{s, id}, d
}

func (s *SlidingLog) end(id uint64, commit bool) {
	s.mu.Lock()
	i, ok := s.holds.find(id)
	if ok {
		o := s.holds.remove(i)
		if commit && s.latest-o.at < s.window {
			s.log.insert(o.at, o.n, s.limit)
		}
	}
	s.mu.Unlock()
	if ok {
		s.changed()
	}
}
