package lines

import (
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Asks appends what the candidates of a waiter ask for, and reads it.
type Asks interface {
	AppendAsks(to []byte, c *Candidate) []byte
	ReadAsks(r *wire.Reader, c *Candidate, stands bool)
}

// AppendImage appends the lines as bytes from which Read makes lines that serve in the same way
// from then on. Nobody may be marked, so Serve must have been called. What was told to a waiter
// when it came is not among them.
func (l *Lines) AppendImage(to []byte, asks Asks, at map[*account.Account]int) []byte {
	to = wire.AppendUint(to, uint64(l.seq))
	waiters := l.Waiters()
	to = wire.AppendUint(to, uint64(len(waiters)))
	number := make(map[*Candidate]uint64)
	last := int64(0)
	for _, w := range waiters {
		to = wire.AppendUint(to, uint64(w.Seq-last))
		last = w.Seq
		to = w.appendImage(to, asks)
		for _, c := range w.Candidates {
			if c.stands() {
				number[c] = uint64(len(number))
			}
		}
	}
	sorted := l.sorted()
	to = wire.AppendUint(to, uint64(len(sorted)))
	place := make(map[*line]int, len(sorted))
	for i, g := range sorted {
		place[g] = i
		rest := int64(0)
		if g.at > 0 {
			rest = g.restAt
		}
		to = wire.AppendUint(to, uint64(at[g.account]))
		to = wire.AppendUint(wire.AppendUint(to, uint64(g.scarce)), uint64(rest))
		to = g.queue.AppendImage(to, func(c *Candidate) uint64 { return number[c] })
	}
	needy := slices.DeleteFunc(slices.Clone(l.needy), func(g *line) bool { return l.of[g.account] != g })
	to = wire.AppendUint(to, uint64(len(needy)))
	for _, g := range needy {
		to = wire.AppendUint(to, uint64(place[g]))
	}
	return to
}

func (w *Waiter) appendImage(to []byte, asks Asks) []byte {
	to = wire.AppendInt(wire.AppendInt(to, w.ID.Process), w.ID.N)
	to = wire.AppendUint(wire.AppendUint(to, uint64(w.ID.Place)), uint64(w.Since))
	patient := int64(0)
	if w.at > 0 {
		patient = w.Patient
	}
	to = wire.AppendUint(wire.AppendUint(to, uint64(w.Deadline)), uint64(patient))
	to = wire.AppendUint(wire.AppendUint(to, uint64(w.MaxQueue)), uint64(w.HoldTTL))
	to = wire.AppendBool(to, w.Charges)
	to = wire.AppendUint(wire.AppendUint(to, uint64(len(w.Candidates))), uint64(w.entered))
	for _, c := range w.Candidates {
		to = wire.AppendUint(to, uint64(c.Kind))
		to = wire.AppendString(wire.AppendString(to, c.Class), c.Flow)
		to = asks.AppendAsks(to, c)
		to = wire.AppendUint(wire.AppendBool(to, c.yields), uint64(c.keptAt))
		to = c.Verdict.AppendImage(to)
	}
	return to
}

// reading is lines that are read from an image.
type reading struct {
	*Lines
	r        *wire.Reader
	asks     Asks
	now      account.Now
	standing []*Candidate
}

// Read reads an image into lines without anybody, of some classes.
func (l *Lines) Read(r *wire.Reader, asks Asks, accounts []*account.Account, classes map[string]Class, now account.Now) {
	in := reading{Lines: l, r: r, asks: asks, now: now}
	l.classes = classes
	l.seq = int64(r.UpTo(math.MaxInt64 >> 1))
	last := int64(0)
	for n := r.Count(math.MaxInt, 16); n > 0 && r.Err() == nil; n-- {
		step := int64(r.UpTo(uint64(l.seq - last)))
		if step == 0 {
			r.Fail("waiter that came with another one")
			return
		}
		last += step
		in.readWaiter(last)
	}
	in.readLines(accounts)
	for _, c := range in.standing {
		if slices.ContainsFunc(c.places, func(p place) bool { return p.line == nil }) {
			r.Fail("waiter that is not in the line of an account")
			return
		}
		if c.isTorn() {
			c.torn = true
			l.torn = append(l.torn, c)
		}
	}
}

func (in *reading) readWaiter(seq int64) {
	r := in.r
	w := &Waiter{ID: account.ID{Process: r.Int(), N: r.Int(), Place: int32(r.UpTo(math.MaxInt32))}, Seq: seq}
	w.Since = int64(r.UpTo(math.MaxInt64))
	w.Deadline, w.Patient = int64(r.UpTo(math.MaxInt64)), int64(r.UpTo(math.MaxInt64))
	w.MaxQueue, w.HoldTTL = int(r.UpTo(math.MaxInt)), int64(r.UpTo(math.MaxInt64))
	w.Charges = r.Bool()
	w.Candidates = make([]*Candidate, r.Count(math.MaxInt, 16))
	w.entered = int(r.UpTo(uint64(len(w.Candidates))))
	if (w.entered < len(w.Candidates)) != (w.Patient > 0) {
		r.Fail("waiter that is patient for nothing")
	}
	for i := range w.Candidates {
		w.Candidates[i] = &Candidate{Waiter: w}
	}
	for i, c := range w.Candidates {
		if in.readCandidate(c, i < w.entered); r.Err() != nil {
			return
		}
	}
	if w.firstInLine() == nil {
		r.Fail("waiter that does not stand in line")
		return
	}
	if w.Patient > 0 {
		in.patient.put(w)
	}
}

func (in *reading) readCandidate(c *Candidate, entered bool) {
	r := in.r
	c.Kind = Kind(r.UpTo(uint64(Closed)))
	if c.Kind != Stands && !entered {
		r.Fail("candidate that was refused before it came")
	}
	stands := c.Kind == Stands && entered
	c.Class, c.Flow = r.String(math.MaxInt), r.String(math.MaxInt)
	in.asks.ReadAsks(r, c, stands)
	c.yields, c.keptAt = r.Bool(), int64(r.UpTo(math.MaxInt64))
	if c.Verdict = verdict.Read(r); r.Err() != nil || !stands {
		return
	}
	in.host.Join(c, in.now)
	if len(c.Items) == 0 || c.Items[0].Account.IsPool() {
		r.Fail("candidate that waits for no model")
		return
	}
	c.places = make([]place, len(c.Items))
	in.standing = append(in.standing, c)
}

func (in *reading) readLines(accounts []*account.Account) {
	r := in.r
	var lines []*line
	for n := r.Count(math.MaxInt, 8); n > 0 && r.Err() == nil; n-- {
		at := r.UpTo(uint64(max(len(accounts)-1, 0)))
		if len(accounts) == 0 {
			r.Fail("line of no account")
			return
		}
		a := accounts[at]
		if k := len(lines); k > 0 && lines[k-1].account.Name >= a.Name {
			r.Fail("line out of order")
			return
		}
		g := in.lineOf(a)
		lines = append(lines, g)
		in.readLine(g)
	}
	for n := r.Count(len(lines), 1); n > 0 && r.Err() == nil; n-- {
		g := lines[r.UpTo(uint64(len(lines)-1))]
		if g.needy {
			r.Fail("line that needs a place twice")
			return
		}
		g.needy = true
		in.needy = append(in.needy, g)
	}
}

func (in *reading) readLine(g *line) {
	r := in.r
	g.scarce = state.Dimension(r.UpTo(uint64(state.Dimensions - 1)))
	g.restAt = int64(r.UpTo(math.MaxInt64))
	g.queue = readFairLine(r, func(id uint64) (c *Candidate, ok bool) {
		if id >= uint64(len(in.standing)) {
			return nil, false
		}
		return in.standing[id], true
	})
	if g.queue.Len() == 0 {
		r.Fail("line without a waiter")
		return
	}
	for e := range g.queue.All() {
		c := e.Value
		i := slices.IndexFunc(c.Items, func(i verdict.Item) bool { return i.Account == g.account })
		if i < 0 || c.places[i].line != nil || e.Class() != in.classOf(c.Class).Name {
			r.Fail("waiter in the line of another account or class")
			return
		}
		c.places[i] = place{line: g, entry: e}
	}
	in.waiting += g.queue.Len()
	g.account.Waiting = g.queue.Len()
	if g.restAt > 0 {
		in.resting.put(g)
	}
}
