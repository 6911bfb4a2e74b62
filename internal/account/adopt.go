package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Mirrors reports whether the account counts what its usage shows: a program may put other entries
// or another day there, by hand.
func (a *Account) Mirrors() bool { return a.usage.DayCount == a.dayWas && a.mirrorsEntries() }

// mirrorsEntries is Mirrors but for the counts of the day.
func (a *Account) mirrorsEntries() bool {
	u := a.usage
	return u.DayStart == a.started && a.requests.Backs(u.Requests) && a.tokens.Backs(u.Tokens)
}

// Adopt has the account count what a usage shows, which was made by hand; it is the account's own
// from then on. day is the day that begins at its DayStart. keeps reports whether the charge of an
// open call is among the entries, if it has not left the minute nor was forgotten; open visits
// these calls.
func (a *Account) Adopt(u *Usage, day Span, now Now, span int64, open func(func(*Call) bool), keeps func(*Charge) bool) {
	known := a.Save()
	a.AdoptPrepared(u, Prepare(u.Requests, u.Tokens, now), day, now, span, open, func(c *Charge) bool { return known.Has(c) && keeps(c) })
	a.Refresh(now, span)
}

// AdoptPrepared is Adopt for a usage whose entries were prepared, for this once. It leaves in what
// has expired, and keeps reports also on charges that were forgotten. A charge that has left the
// minute is not looked for: it stays in the count of the day.
func (a *Account) AdoptPrepared(u *Usage, p *Prepared, day Span, now Now, span int64, open func(func(*Call) bool), keeps func(*Charge) bool) {
	if u == a.usage && u.DayCount != a.dayWas && u.DayCount <= 0 {
		u.DayTokens = 0 // a program that clears the requests of the day by hand means the tokens, too
	}
	if u == a.usage && a.mirrorsEntries() { // it has changed the counts of the day alone
		a.days, a.dayWas = a.Day.serial, u.DayCount
		return
	}
	was := a.Meter
	a.Meter = Meter{Window: p.window, InFlight: was.InFlight, account: a, usage: u, day: &a.Day, epoch: was.epoch + 1}
	a.Meter.show()
	a.shown, u.Owner = true, a
	a.Day.serial++
	a.Day.Span, a.days = day, a.Day.serial
	a.started, a.dayWas = u.DayStart, u.DayCount
	if a.Day.Begin > now.Wall {
		a.Day.start(now.Wall)
		a.Day.show()
	}
	a.repace(now, span)
	for c := range open {
		for i := range c.Charges {
			charge := &c.Charges[i]
			if charge.Meter == &a.Meter && now.Instant-charge.At <= span && keeps(charge) {
				charge.readopt(now)
			}
		}
	}
}

// Aside returns an account that counts what a usage shows which was made by hand, and leaves the
// usage as it is. It has the quota of a, and nothing else of it.
func (a *Account) Aside(u *Usage, day Span, now Now, span int64) *Account {
	is := New("")
	is.SetQuota(a.Quota, !a.Has(Unknown), a.Day.zone, now, span)
	shows := *u
	if u == a.usage && u.DayCount != a.dayWas && u.DayCount <= 0 {
		shows.DayTokens = 0 // as in AdoptPrepared
	}
	is.Adopt(&shows, day, now, span, func(func(*Call) bool) {}, nil)
	return is
}

// readopt finds the charge again among the entries that its meter has taken over.
func (c *Charge) readopt(now Now) {
	m := c.Meter
	request := m.requests.FindFilled(c.At, func(*time.Time) bool { return true })
	token := m.tokens.FindFilled(c.At, func(e *state.Token) bool { return TokensOf(e) == c.Tokens })
	c.place(request, token)
	if c.days = m.day.serial - 1; m.day.Holds(now.WallAt(c.At)) {
		c.days = m.day.serial
	}
}

// Save notes that the file of this process is being written, and returns a mark of what is in it:
// see Saved.
func (a *Account) Save() Mark {
	a.round++
	return Mark{a.epoch, a.round}
}

// Mark tells which charges were in an account when it was saved.
type Mark struct {
	epoch uint32
	round uint16
}

// Has reports whether a charge was in the account when it was saved.
func (m Mark) Has(c *Charge) bool { return c.epoch == m.epoch && int16(m.round-c.round) > 0 }

// Marks tell which charges of an account are in the file: those of the last save that met it, and
// of the last one before that succeeded, if that is another. Saves have numbers above 0. The zero
// value is none.
type Marks struct{ last, before numberedMark }

type numberedMark struct {
	save int
	of   Mark
}

// Note notes that the save under way meets the account. saved is the last save that succeeded.
func (m *Marks) Note(save, saved int, of Mark) {
	if m.last.save == saved {
		m.before = m.last
	}
	m.last = numberedMark{save, of}
}

// Saved returns the mark of the last save that succeeded; that of no charge where it did not meet
// the account.
func (m *Marks) Saved(saved int) Mark {
	switch saved {
	case m.last.save:
		return m.last.of
	case m.before.save:
		return m.before.of
	}
	return Mark{}
}

// Loaded notes that the account has what the last save that succeeded has written.
func (m *Marks) Loaded(saved int, of Mark) { *m = Marks{last: numberedMark{saved, of}} }
