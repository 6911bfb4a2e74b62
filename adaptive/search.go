package adaptive

// search is the arithmetic of a limit that is not known. It has no clock and no lock.
//
// Below the knee, where the last refusal was, a clean window closes a seventh of the gap. From
// there on each step is three times the one before, so that a limit that was raised is found
// in the logarithm of the change. Without a knee the level doubles, and no window does more
// than that.
type search struct {
	floor, ceiling int64
	keep           int64 // what the first refusal leaves, in thousandths
	grow           int64 // the least step, in thousandths of the level
	unit           int64 // the least decrease: less than a slot is none
	shares         bool  // whether it looks for rivals, other clients of the provider

	level  int64
	late   bool  // whether refusals come back late
	knee   int64 // the level that was refused last; 0 if none is known
	step   int64 // the latest one beyond the knee
	raised int64 // what the latest clean window added; 0 after a refusal
	streak int64 // refusals without a clean window between, at most lost
	rivals int64 // how many refusals beyond the knee it takes until there are no rivals
	top    int64 // the highest knee of late that the limit was near; 0 for none
	stays  int64 // how many first refusals below the top it takes until it is forgotten
	near   bool  // whether the knee was refused after a small step, so that the limit is near it
}

const (
	// lost is the number of refusals in a row after which nothing is known any more.
	lost = 6
	// fair is the share of the floor that is the least step of a level near it. All clients
	// of a provider with the same floor add so much, so one that begins at the floor gets
	// its part.
	fair = 64
	// lateGrow bounds the steps while refusals come back late, in thousandths of the level:
	// steps that triple would be far beyond the limit before the first refusal of it is back.
	// A level above lateFar thousandths of the knee would have emptied most buckets, so from
	// there on lateFarGrow does.
	lateGrow    = 30
	lateFar     = 1300
	lateFarGrow = 200
	// A limit of one's own is refused beyond the knee, or just below it. A first refusal that is
	// further below, in thousandths of the knee, is that of a rival who took the room. So many
	// first refusals beyond the knee say that the rival is gone, and a third one in a row that the
	// limit itself is lower.
	rivalBelow = 980
	rivalsStay = 4
	// A knee of fewer thousandths of the top than topBelow is what a client has left that may go
	// again: the way up stops at the top, and has small steps beyond it. A refusal within topNear
	// thousandths of it confirms it, and topStays first ones below that forget it. Rivals share
	// what there is by their steps, so theirs are small only from rivalsTop thousandths of it on.
	topBelow  = 900
	topNear   = 950
	topStays  = 45
	rivalsTop = 1100
	// While there are rivals a client that has less loses a smaller share, or the shares would go
	// up and down at random: what keep takes off goes with the root of the level below equalLevel,
	// in units in perSpan, and is at least leastRoot thousandths of it.
	equalLevel = 5e9
	leastRoot  = 500
)

// refused lowers the level. The first refusal takes little, because the limit is near; those
// that follow it find it far below.
func (s *search) refused() {
	s.lookForRivals()
	kept, passed := s.keep, s.level
	if s.rivals > 0 {
		kept = s.keepAmongRivals()
	}
	switch {
	case s.streak == 0:
		passed -= s.raised // the level before was not refused
		if s.late && s.knee > 0 && s.step > 0 {
			passed = min(passed, s.knee) // of the levels since nobody knows
		}
		if top := s.bound(); top > 0 && s.level > top {
			passed = min(passed, top)
		}
		s.remember()
	case s.streak == 1:
		kept = max(1000-2*(1000-s.keep), 500)
	default:
		kept = min(700, s.keep)
	}
	s.knee, s.near = s.level, s.raised <= s.level/32
	s.level = max(min(passed, scaled(s.level, kept, 1000), s.level-s.unit), s.floor)
	if s.streak = min(s.streak+1, lost); s.streak == lost {
		s.knee = 0
	}
	s.step, s.raised = 0, 0
}

// remember keeps the level of a first refusal that the limit is near, if it is the highest of late.
func (s *search) remember() {
	near := s.raised <= s.level/32
	if s.stays = max(s.stays-1, 0); s.stays == 0 {
		s.top = 0
	}
	if s.shares && !s.late && near && s.rivals == 0 && s.level >= scaled(s.top, topNear, 1000) {
		s.top, s.stays = s.level, topStays
	}
}

// bound returns the top if the knee is far below it, and otherwise 0.
func (s *search) bound() int64 {
	if s.knee > 0 && s.knee < scaled(s.top, topBelow, 1000) {
		return s.top
	}
	return 0
}

// lookForRivals tells by a refusal at the present level whether there are rivals. Refusals that
// come back late are not of the present level.
func (s *search) lookForRivals() {
	switch {
	case !s.shares || s.late || s.knee == 0 || s.streak > 1:
		s.rivals = 0
	case s.streak == 0 && s.near && s.level < scaled(s.knee, rivalBelow, 1000):
		s.rivals = rivalsStay
	case s.streak == 0:
		s.rivals = max(s.rivals-1, 0)
	}
}

// keepAmongRivals returns what the first refusal leaves while there are rivals, in thousandths.
func (s *search) keepAmongRivals() int64 {
	square := scaled(min(s.level, equalLevel), 1e6, equalLevel)
	return 1000 - max(scaled(1000-s.keep, max(root(square), leastRoot), 1000), 1)
}

// passed raises the level after a clean window.
func (s *search) passed() {
	s.streak = 0
	least := max(scaled(s.level, s.grow, 1000), min(s.floor/fair, s.level/16), 1)
	add := s.level
	if s.knee > s.level {
		add, s.step = max((s.knee-s.level)/7, least), 0
	} else if s.knee > 0 {
		s.step = min(max(3*s.step, least), s.level)
		if s.late {
			s.step = min(s.step, max(s.lateStep(s.knee), least))
		}
		add = s.step
		switch top := s.bound(); {
		case top == 0:
		case s.rivals > 0 && s.level < scaled(top, rivalsTop, 1000):
		case s.level >= top:
			s.step = min(s.step, max(s.lateStep(top), least))
			add = s.step
		case s.level+add >= top:
			add, s.step = top-s.level, 0
		}
	}
	s.raised = min(add, s.level, s.ceiling-s.level)
	s.level += s.raised
}

// lateStep returns the largest step while refusals come back late.
func (s *search) lateStep(limit int64) int64 {
	if s.level > scaled(limit, lateFar, 1000) {
		return scaled(s.level, lateFarGrow, 1000)
	}
	return scaled(s.level, lateGrow, 1000)
}

// aged returns n after an age, of which it loses half in each half-life, and within it at an
// even pace. A negative age is none.
func aged(n, age, halfLife int64) int64 {
	if age <= 0 {
		return n
	}
	if age/halfLife >= 63 {
		return 0
	}
	n >>= age / halfLife
	return n - scaled(n, age%halfLife, 2*halfLife)
}
