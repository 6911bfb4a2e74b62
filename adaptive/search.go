package adaptive

// search is the arithmetic of a limit that is not known. It has no clock and no lock.
//
// Below the knee, where the last refusal was, a clean window closes a quarter of the gap. From
// there on steps double, so that a limit that was raised is found in the logarithm of the
// change. Without a knee the level doubles, and no window does more than that.
type search struct {
	floor, ceiling int64
	keep           int64 // what the first refusal leaves, in thousandths

	level  int64
	knee   int64 // the level that was refused last; 0 if none is known
	step   int64 // the next one beyond the knee
	raised int64 // what the latest clean window added
	streak int   // refusals without two clean windows between
	clean  int   // clean windows since the latest refusal
}

const (
	// fineness is the share of the level that the first step beyond the knee adds. Two
	// clients share a provider because the one with more is refused more often.
	fineness = 256
	// lost is the number of refusals in a row after which nothing is known any more.
	lost = 6
)

// refused lowers the level. The first refusal takes little, because the limit is near; those
// that follow find it far below.
func (s *search) refused() {
	before := s.level
	kept := s.keep
	switch {
	case s.streak == 1:
		kept = 1000 - min(2*(1000-s.keep), 500)
	case s.streak > 1:
		kept = 700
	}
	if s.streak == 0 {
		s.level -= s.raised // the level before it was not refused
	}
	s.level = max(min(s.level, before-scaled(before, 1000-kept, 1000)), s.floor)
	s.streak++
	s.knee = before
	if s.streak >= lost {
		s.knee = 0
	}
	s.step, s.raised, s.clean = 0, 0, 0
}

// passed raises the level after a clean window.
func (s *search) passed() {
	if s.clean++; s.clean >= 2 {
		s.streak = 0
	}
	least := max(s.level/fineness, 1)
	add := s.level
	if s.knee > s.level {
		add, s.step = max((s.knee-s.level)/4, least), 0
	} else if s.knee > 0 {
		s.step = min(max(2*s.step, least), s.level)
		add = s.step
	}
	add = min(add, s.level, s.ceiling-s.level)
	s.level += add
	s.raised = add
}

// forget forgets the way to the present level.
func (s *search) forget() { s.step, s.raised, s.streak, s.clean = 0, 0, 0, 0 }
