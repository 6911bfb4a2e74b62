package limit

import "time"

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
	guarded
	limit  int
	window int64    // nanoseconds
	line   timeline // of entries and holds
	latest int64    // the latest charge or hold
	log    ring     // the charges in the window at latest; with the holds at most limit
	holds  holds[struct{}]
}

// firstEntries is how many entries a new log has room for.
const firstEntries = 64

// NewSlidingLog returns an empty SlidingLog. It returns an error that matches ErrInvalid
// for a limit or a window that is not positive, and for a window above 36 years.
func NewSlidingLog(limit int, window time.Duration) (*SlidingLog, error) {
	if err := validate("new sliding log", "limit", limit, "window", window); err != nil {
		return nil, err
	}
	s := &SlidingLog{limit: limit, window: int64(window)}
	s.log.entries = make([]record, min(limit, firstEntries))
	s.begin(s)
	return s, nil
}

func (s *SlidingLog) decideLocked(now time.Time, n int, is purpose) (id uint64, d Decision) {
	at, behind := s.line.from(now, s.latest)
	live := s.log.after(at - s.window) // the first entry in the window
	used := s.log.since(live)
	unheld := s.limit - s.holds.units
	d.Remaining = unheld - used
	switch {
	case n < 0 || n > s.limit:
		d.Never = true
	case n > unheld: // only the end of a hold helps
	case n > d.Remaining:
		last := s.log.get(s.log.reaching(live, n-d.Remaining))
		d.RetryAfter = sum(time.Duration(last.at+s.window-at), behind)
	default:
		d.OK = true
		d.Remaining -= n
	}
	if d.OK && n > 0 {
		d.ResetAfter = sum(time.Duration(s.window), behind)
	} else if used > 0 {
		newest := s.log.get(s.log.n - 1)
		d.ResetAfter = sum(time.Duration(newest.at+s.window-at), behind)
	}
	if is == peek || !d.OK || n == 0 {
		return 0, d
	}
	s.moveLocked(now, at, live)
	if is == charge {
		s.log.insert(s.latest, n, s.limit)
		return 0, d
	}
	id = s.holds.add(s.latest, n, struct{}{})
	_, d = s.decideLocked(now, 0, peek)
	return id, d
}

// moveLocked makes now, which lies at at, the latest, and forgets what is not live.
func (s *SlidingLog) moveLocked(now time.Time, at int64, live int) {
	s.log.forget(live)
	shift := s.line.reach(now, at)
	s.latest = at - shift
	if shift == 0 {
		return
	}
	for i := range s.log.n {
		s.log.get(i).at -= shift
	}
	for i := range s.holds.open {
		o := &s.holds.open[i]
		o.at = max(o.at-shift, -far)
	}
}

func (s *SlidingLog) endLocked(id uint64, commit bool) bool {
	o, _, ok := s.holds.remove(id)
	if ok && commit && s.latest-o.at < s.window {
		s.log.insert(o.at, o.n, s.limit)
	}
	return ok
}
