package adaptive

const (
	// A rate that is refused though it is fewer thousandths than crowdBelow of what passed of a
	// higher one, crowdSigns times, is refused because of the instants of its units.
	crowdBelow = 600
	crowdSigns = 2
	// While there is a crowd the rate is the crowdPart of the one before it, and grows by
	// crowdGrow thousandths for each unit that passes. So many in a row end it.
	crowdPart   = 32
	crowdGrow   = 250
	crowdPasses = 10
	// Behind it the rate is so many thousandths of the one before it, and of that again if it is
	// refused at once. So many refusals in a row say that it is no crowd.
	crowdReturn  = 900
	crowdRetreat = 700
	crowdDeaf    = 8
	// A crowd is met at any rate. Where it is crowdSlow times not met before the crowdEarly-th
	// step, the rate itself is refused.
	crowdEarly = 4
	crowdSlow  = 3
	// servedLasts is for how long what passed of a rate is known, and crowdLasts for how long a
	// provider is taken for one that has had a crowd.
	servedLasts = 2 * minute
	crowdLasts  = 15 * minute
)

// crowd is how a RateSearch tells that it shares a bucket that holds a call or two. Each unit of
// the others leaves it empty for a while, so the same share of the units is refused at any rate,
// and a search that lowers the rate at each refusal would end at the floor, and stay there.
type crowd struct {
	served   int64 // the most that passed of a rate of late
	servedAt int64
	latest   int64 // what passed of the latest rate that was refused
	signs    int64 // how many refusals of far lower rates came since then
	holds    bool  // whether there is a crowd
	high     int64 // the rate before
	back     int64 // the rate behind it
	passes   int64 // how many steps it has taken in a row
	deaf     int64 // how many refusals came in a row
	stepped  int64 // when the latest step was
	sent     int64 // units since then
	trial    bool  // whether there was no clean window since the latest crowd
	until    int64 // until when a crowd is expected again; never for none
	from     int64 // the rate that it found
	met      bool  // whether there was a refusal in it after few steps
	slow     int64 // how many refusals in a row came after more
	barred   int64 // until when what looks like a crowd is none; never for none
}

func newCrowd() crowd { return crowd{until: never, barred: never} }

// shift makes an instant the new origin.
func (c *crowd) shift(by int64) {
	c.servedAt, c.stepped = sub(c.servedAt, by), sub(c.stepped, by)
	for _, at := range []*int64{&c.until, &c.barred} {
		if *at != never {
			*at = sub(*at, by)
		}
	}
}

// forget forgets what the latest units tell.
func (c *crowd) forget() { *c = newCrowd() }

// serve keeps what passed of a rate that was refused.
func (c *crowd) serve(at, passed int64) {
	if since := sub(at, c.servedAt); passed >= c.served || since > servedLasts || since < 0 {
		c.served, c.servedAt, c.signs = passed, at, 0
	}
	c.latest = passed
}

// crowded looks for a crowd when a rate was lowered again, which was before until then.
func (s *RateSearch) crowded(at, before int64) {
	c := &s.crowd
	if s.late || s.top == 0 || c.barred != never && at < c.barred {
		return
	}
	if s.streak > 1 && sub(at, c.servedAt) <= servedLasts && before < scaled(c.served, crowdBelow, 1000) {
		c.signs++
	}
	switch {
	case c.signs >= crowdSigns:
		c.high, c.back = s.top, min(s.top, c.served)
		s.wait(at)
	case c.until != never && at < c.until && s.streak > 1:
		c.high, c.back = s.top, min(s.top, c.latest)
		s.wait(at)
	}
}

// wait begins a crowd.
func (s *RateSearch) wait(at int64) {
	c := &s.crowd
	c.holds, c.trial, c.signs, c.deaf = true, false, 0, 0
	c.until = at + crowdLasts
	c.from, c.met, c.slow = s.level, false, 0
	s.hush(at)
}

// hush goes back to the rate at which a crowd costs little.
func (s *RateSearch) hush(at int64) {
	c := &s.crowd
	c.passes, c.sent, c.stepped = 0, 0, at
	s.level = max(c.high/crowdPart, s.floor)
	s.knee, s.streak, s.step, s.raised, s.rivals = c.high, 0, 0, 0, 0
}

// missed tells of a refusal in a crowd. Where all is refused there is none.
func (s *RateSearch) missed(at int64) {
	c := &s.crowd
	if c.deaf++; c.deaf >= crowdDeaf {
		s.noCrowd(at)
		s.knee, s.top = 0, 0
		return
	}
	if c.passes < crowdEarly {
		c.met, c.slow = true, 0
	} else if c.slow++; c.slow >= crowdSlow {
		s.noCrowd(at)
		s.knee, s.level = s.level, max(scaled(s.level, 600, 1000), s.floor)
		return
	}
	s.hush(at)
}

// noCrowd ends what was taken for a crowd, and takes nothing for one for a while.
func (s *RateSearch) noCrowd(at int64) {
	c := &s.crowd
	c.holds, c.trial, c.until, c.barred = false, false, never, at+crowdLasts
}

// stepReady reports whether a unit passed since the latest step: its refusal would be back.
func (s *RateSearch) stepReady(at int64) bool {
	return s.crowd.sent > 0 && sub(at, s.crowd.stepped) >= max(s.lag/4*5, s.window/8)
}

// stepUp raises the rate in a crowd, or ends it.
func (s *RateSearch) stepUp(at int64) {
	c := &s.crowd
	c.deaf, c.sent, c.stepped = 0, 0, at
	if c.passes++; c.passes < crowdPasses {
		s.level = min(s.level+scaled(s.level, crowdGrow, 1000), max(c.back, s.level))
		return
	}
	s.drought.forget(false)
	if !c.met { // a crowd is met at any rate
		s.noCrowd(at)
		s.level, s.knee = max(c.from, s.floor), c.back
		return
	}
	c.holds, c.trial, s.drought.until = false, true, never
	s.level = max(scaled(c.back, crowdReturn, 1000), s.level)
	s.top, s.knee = c.back, c.back
}

// retreat tells of a refusal right behind a crowd.
func (s *RateSearch) retreat(at int64) {
	c := &s.crowd
	if c.back = scaled(c.back, crowdRetreat, 1000); c.back < c.high/4 {
		s.noCrowd(at)
		return
	}
	s.wait(at)
	c.met = true
}
