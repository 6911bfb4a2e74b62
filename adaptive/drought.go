package adaptive

import "time"

// minute is the time in which providers count calls where they have no token bucket: that of the
// calendar, or the latest one.
const minute = int64(time.Minute)

const (
	// A token bucket has room again sooner than after leastDrought, and after leastDroughtGaps
	// gaps. No minute lasts as long as longestDrought: that is an outage.
	leastDrought     = int64(2 * time.Second)
	leastDroughtGaps = 4
	longestDrought   = minute * 5 / 4
	// mostRefused tenths of the units that were sent since the rate was lowered, and fewRefused at
	// least, say that lowering it did not help.
	mostRefused = 8
	fewRefused  = 3
	// While there is a drought the rate is probes in the time that it has lasted, or, if that is
	// more, a part of the rate before it.
	probes    = 6
	probePart = 64
	// enterWith thousandths of what a minute allows is the rate behind a drought.
	enterWith = 990
	// longestSum bounds the units that are counted, so that no product overflows.
	longestSum = int64(1) << 38
	// minuteLasts is for how long a provider is taken for one that counts the minute.
	minuteLasts = 30 * minute
)

// tally counts the units that pass in a minute, and has those of the minute before.
type tally struct{ from, now, before int64 }

func (t *tally) add(at, n int64) {
	switch since := sub(at, t.from); {
	case since >= 2*minute:
		t.from, t.now, t.before = at, 0, 0
	case since >= minute:
		t.from, t.now, t.before = t.from+minute, 0, t.now
	}
	t.now = min(t.now, longestSum-n) + n
}

func (t *tally) remove(n int64) { t.now = max(t.now-n, 0) }

// last returns how many passed in the minute until at, if those of the minute before were even.
func (t *tally) last(at int64) int64 {
	left := min(max(minute-sub(at, t.from), 0), minute)
	return t.now + scaled(t.before, left, minute)
}

// drought is how a RateSearch tells that the window of a provider is used up: lowering the rate
// does not help then, and nothing passes until the window ends, or its first calls leave it. What
// passed in the minute until then is what a minute allows, whichever of both it is.
type drought struct {
	tally   tally
	full    tally // at the refusal that nothing passed after
	began   int64 // when that was
	high    int64 // the rate then; 0 where it is not known
	sent    int64 // units since the rate was lowered last,
	refused int64 // and how many of them were refused
	holds   bool  // whether there is a drought
	held    int64 // since when that is known
	some    int64 // what passed of the rate before that; 0 for nothing
	probed  int64 // when a unit was sent in it that was not refused; never for none
	allowed int64 // the rate that a minute allows
	until   int64 // until when the provider is taken for one that counts the minute; never for none
}

// count counts units that pass.
func (d *drought) count(at, n int64) {
	d.tally.add(at, n)
	d.sent = min(d.sent, longestSum-n) + n
	if d.holds && (d.probed == never || at < d.probed) && n > 0 {
		d.probed = at
	}
}

// uncount takes units back.
func (d *drought) uncount(n int64) {
	d.tally.remove(n)
	d.sent = max(d.sent-n, 0)
}

// forget forgets what the units since the rate was lowered tell, and what a minute allows if that
// was found long ago.
func (d *drought) forget(longAgo bool) {
	d.holds, d.probed, d.sent, d.refused = false, never, 0, 0
	if longAgo {
		d.until = never
	}
}

// shift makes an instant the new origin.
func (d *drought) shift(by int64) {
	for _, at := range []*int64{&d.tally.from, &d.full.from, &d.began, &d.held} {
		*at = sub(*at, by)
	}
	for _, at := range []*int64{&d.probed, &d.until} {
		if *at != never {
			*at = sub(*at, by)
		}
	}
}

// countsMinute reports whether the provider seems to count the minute.
func (s *RateSearch) countsMinute(at int64) bool {
	return s.drought.until != never && at < s.drought.until
}

// judge tells from the units since the rate was lowered, of which took is how long the latest
// refusal was on its way, whether lowering it helped. The rate was before until it was lowered now.
func (s *RateSearch) judge(at, took, before int64) {
	d := &s.drought
	known := d.sent - s.lag/gapOf(before) // the others are under way
	helped := min(known, d.refused) < fewRefused || d.refused*10 < known*mostRefused
	switch {
	case d.holds:
		s.probe(at)
	case s.streak > 1 && !helped:
		d.holds, d.held, d.probed = true, at, never
		d.some = scaled(before, max(known-d.refused, 0), max(known, 1))
		s.probe(at)
	default:
		if s.streak > 1 {
			s.measured(at, before, known)
		}
		s.crowded(at, before)
		d.began, d.high, d.full = at, before, d.tally
		d.full.remove(max(took, 0) / gapOf(before))
	}
	d.sent, d.refused = 0, 0
}

// measured lowers the rate to what passed of one that was too high, of which so many units are
// known.
func (s *RateSearch) measured(at, before, known int64) {
	refused := s.drought.refused
	if s.late || known <= refused {
		return
	}
	passed := scaled(before, known-refused, known)
	if refused >= fewRefused {
		s.level = max(min(s.level, passed), s.floor)
	}
	s.crowd.serve(at, min(passed, max(s.top, s.floor)))
}

// probe lowers the rate to one at which a drought costs little, but ends within a part of the time
// that it has lasted.
func (s *RateSearch) probe(at int64) {
	d := &s.drought
	lasted := sub(at, d.began)
	if lasted > longestDrought {
		d.holds, s.knee, s.streak = false, 0, lost
		return
	}
	level := max(scaled(probes, perSpan, max(lasted, int64(time.Second))), d.high/probePart)
	s.level = max(min(s.level, level), s.floor)
}

// probePassed reports whether a unit passed in a drought: its refusal would be back.
func (s *RateSearch) probePassed(at int64) bool {
	return s.drought.probed != never && sub(at, s.drought.probed) >= max(s.lag/4*5, s.window/4)
}

// end ends a drought.
func (s *RateSearch) end() {
	d := &s.drought
	d.holds = false
	least := leastDrought
	if d.high > 0 { // else the row of refusals was resumed, and began at a rate that nobody knows
		least = max(least, leastDroughtGaps*gapOf(d.high))
	}
	if !s.countsMinute(d.probed) && sub(d.probed, d.held) < least {
		if d.some == 0 {
			d.some = scaled(d.high, 600, 1000)
		}
		s.level = max(s.level, d.some)
		return
	}
	s.learn(d.probed)
}

// learn enters a window that begins at an instant with what passed in the minute before. A window
// that seems to begin again soon is a sliding one, which its first calls leave.
func (s *RateSearch) learn(at int64) {
	d := &s.drought
	if !s.countsMinute(at) || sub(at, d.full.from) >= minute*3/4 {
		units := d.full.last(at)
		if units < s.windowUnits {
			return
		}
		d.allowed = min(max(scaled(units, perSpan, minute), s.floor), s.ceiling)
		d.tally, d.until = tally{from: at, before: units}, at+minuteLasts
	}
	s.knee, s.level = d.allowed, max(scaled(d.allowed, enterWith, 1000), s.floor)
	s.step, s.raised, s.streak = 0, 0, 0
}

// awaited learns from a refusal that says how long nothing is to be sent, if that may be the rest
// of a minute. The rate was before until it was lowered now.
func (s *RateSearch) awaited(at, until, before int64) {
	wait := sub(until, at)
	if wait < leastDrought || wait < leastDroughtGaps*gapOf(before) || wait > longestDrought {
		return
	}
	lowered := s.level
	s.drought.holds = false
	s.learn(until)
	s.level = min(s.level, lowered)
}
