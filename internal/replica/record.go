package replica

import (
	"cmp"
	"encoding/binary"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// record is what is known of a call, so that it can be told as a fact.
type record struct {
	fact      engine.Charged // but for Ago and Hold
	at        int64          // the instant at which it was admitted,
	arrived   int64          // and at which its provider counted it; 0 where that is not known
	holdUntil int64          // the instant at which it expires; 0 for never
	ending    bool           // its end was told
}

// recordOf returns what the engine knows of an open call.
func recordOf(c *account.Call) *record {
	return &record{fact: factOf(c, c.At.Instant), at: c.At.Instant, holdUntil: c.HoldUntil}
}

// factOf returns an open call as a fact at an instant.
func factOf(c *account.Call, instant int64) engine.Charged {
	name := engine.Name{Asked: c.Asked, Counted: c.Asked}
	if c.Model != nil {
		name.Counted = c.Model.Name
	}
	return engine.Charged{
		ID: c.ID, Name: name, Tokens: c.Tokens, Most: c.Most, Class: c.Class, Open: true,
		Ago: max(instant-c.At.Instant, 0), Hold: holdOf(c.HoldUntil, instant),
	}
}

// holdOf returns how long a call is held yet that expires at an instant; 0 for one that does not.
func holdOf(until, instant int64) int64 {
	if until == 0 {
		return 0
	}
	return max(until-instant, 1)
}

// tell returns the fact as it is at an instant.
func (k *record) tell(instant int64) engine.Charged {
	c := k.fact
	if c.Ago, c.Hold = max(instant-max(k.at, k.arrived), 0), 0; c.Open {
		c.Hold = holdOf(k.holdUntil, instant)
	}
	return c
}

// end notes how the call has ended.
func (k *record) end(c engine.Settle) {
	k.fact.Open, k.fact.How, k.fact.Used, k.fact.Cost = false, c.How, c.Used, c.Cost
}

// endOf returns the end of a call that a fact tells.
func endOf(c *engine.Charged) engine.Settle {
	return engine.Settle{ID: c.ID, How: c.How, Used: c.Used, Cost: c.Cost}
}

// journal is what was applied within a window, as bytes, to be told where a log was lost.
type journal struct {
	pages []page // the last is written to
	slot  int    // of the size of the command that was begun
}

// page is a part of a journal.
type page struct {
	bytes   []byte
	last    int64           // the instant of its last entry
	told    bool            // to a log, in which its settings may be others by now
	numbers map[int64]reach // of each process, of commands and of calls
}

// reach is between which numbers those of a process are.
type reach struct{ least, greatest int64 }

// In bytes: of a page, and what an entry seldom exceeds.
const (
	pageSize  = 64 << 10
	usualFact = 256
)

// note adds what an entry has brought about. ended is the call that it has settled.
func (j *journal) note(process, n int64, r *fleet.Result, e *engine.Engine, ended *engine.Charged) {
	at := r.Now.Instant
	facts := func(of []account.ID) {
		for _, id := range of {
			if c := e.Call(id); c != nil {
				j.end(factOf(c, at).Append(j.begin(process, n, at, false)))
				j.saw(id.Process, id.N)
			}
		}
	}
	facts(r.Outcome.Calls)
	for i := range r.Outcome.Ended {
		facts(r.Outcome.Ended[i].Calls)
	}
	verb, is := r.Command.(fleet.Verb)
	if !is || r.Outcome.Ignored {
		return
	}
	switch c := verb.Command.(type) {
	case *engine.Settle:
		if ended != nil {
			j.end(ended.Append(j.begin(process, n, at, true)))
			j.saw(ended.ID.Process, ended.ID.N)
		}
	case engine.Record:
		j.end(recorded(&c, process, n).Append(j.begin(process, n, at, false)))
	case *engine.Admit, engine.Enter, engine.Leave, engine.Arrive, engine.Advance, engine.Observe, engine.Refuse, engine.Reprice:
	default:
		j.end(c.Append(j.begin(process, n, at, false)))
	}
}

// recorded returns the fact of a call that was sent without a reservation.
func recorded(c *engine.Record, process, n int64) engine.Charged {
	return engine.Charged{ID: account.ID{Process: process, N: n}, Name: c.Name, Tokens: c.Used, Used: c.Used, Most: c.Cost, Cost: c.Cost}
}

// begin begins a command of an entry, which may be the end of a call that was known. It returns the
// bytes to append it to, which end gets.
func (j *journal) begin(process, n, at int64, ends bool) []byte {
	if last := len(j.pages) - 1; last < 0 || j.pages[last].told || len(j.pages[last].bytes) >= pageSize-usualFact {
		j.pages = append(j.pages, page{bytes: make([]byte, 0, pageSize), numbers: make(map[int64]reach)})
	}
	p := &j.pages[len(j.pages)-1]
	p.last = at
	j.saw(process, n)
	b := wire.AppendBool(wire.AppendInt(wire.AppendInt(wire.AppendInt(p.bytes, process), n), at), ends)
	j.slot = len(b)
	return append(b, 0, 0, 0, 0)
}

// saw notes a number of a process in the last page.
func (j *journal) saw(process, n int64) {
	numbers := j.pages[len(j.pages)-1].numbers
	is, has := numbers[process]
	if !has {
		is = reach{n, n}
	}
	numbers[process] = reach{min(is.least, n), max(is.greatest, n)}
}

func (j *journal) end(b []byte) {
	binary.BigEndian.PutUint32(b[j.slot:], uint32(len(b)-j.slot-4))
	j.pages[len(j.pages)-1].bytes = b
}

// precede puts another journal, which was told, before this one: the log that it was told to may be
// lost, too.
func (j *journal) precede(other *journal) {
	for i := range other.pages {
		other.pages[i].told = true
	}
	j.pages = append(other.pages, j.pages...)
	*other = journal{}
}

// forget forgets the pages of what was applied more than a window before an instant.
func (j *journal) forget(instant, window int64) {
	old := 0
	for old < len(j.pages) && j.pages[old].last < instant-window {
		old++
	}
	j.pages = slices.Delete(j.pages, 0, old)
}

// missing returns what a log has not heard, to be told to it: settings in their order, and then
// facts. Of a call that it knows it is told no more than the end. knows reports whether the log has
// heard a command, and knows what came of a call by that; knowsAll, whether it does of all that is
// in a page, so that nobody has to look: there may be very many.
func (j *journal) missing(knows func(process, n int64, of account.ID) bool, knowsAll func(*page) bool, instant, cut int64) (commands []engine.Command) {
	type fact struct {
		engine.Charged
		heard bool // that the call has ended
	}
	var facts []fact
	known := make(map[account.ID]bool)
	settings := true
	add := func(process, n, at int64, ends bool, data []byte) {
		c, err := engine.Decode(data)
		if err != nil {
			return // out of range, so nobody could apply it
		}
		told, is := c.(engine.Charged)
		isHeard := knows(process, n, told.ID)
		if isHeard && is && !ends {
			known[told.ID] = true
		}
		switch {
		case at < cut, isHeard && !ends: // what has ended may have begun with an entry that was lost
		case is:
			facts = append(facts, fact{older(told, max(instant-at, 0)), isHeard})
		case settings:
			commands = append(commands, c)
		}
	}
	for i := range j.pages {
		if settings = !j.pages[i].told; !knowsAll(&j.pages[i]) {
			j.pages[i].entries(add)
		}
	}
	slices.SortStableFunc(facts, func(a, b fact) int { return compareFacts(a.Charged, b.Charged) })
	for _, c := range facts {
		switch {
		case !known[c.ID] && !knows(c.ID.Process, c.ID.N, c.ID):
			commands = append(commands, c.Charged)
		case !c.Open && !c.heard:
			commands = append(commands, endOf(&c.Charged))
		}
	}
	return commands
}

// entries visits the commands of a page.
func (p *page) entries(visit func(process, n, at int64, ends bool, command []byte)) {
	for rest := p.bytes; len(rest) > 0; {
		var process, n, at int64
		for _, to := range [...]*int64{&process, &n, &at} {
			value, size := binary.Varint(rest)
			*to, rest = value, rest[size:]
		}
		ends, size := rest[0] != 0, binary.BigEndian.Uint32(rest[1:])
		visit(process, n, at, ends, rest[5:5+size])
		rest = rest[5+size:]
	}
}

// older returns a fact as it is after a time.
func older(c engine.Charged, by int64) engine.Charged {
	if c.Ago += by; c.Open && c.Hold > 0 {
		c.Hold = max(c.Hold-by, 1)
	}
	return c
}

func compareFacts(a, b engine.Charged) int {
	return cmp.Or(cmp.Compare(a.ID.Process, b.ID.Process), cmp.Compare(a.ID.N, b.ID.N), cmp.Compare(a.ID.Place, b.ID.Place))
}

// digests are the hashes of all outcomes at the last entries.
type digests struct {
	at [1024]struct {
		seq    int64
		digest engine.Digest
	}
	next int
}

func (d *digests) add(seq int64, digest engine.Digest) {
	is := &d.at[d.next%len(d.at)]
	is.seq, is.digest = seq, digest
	d.next++
}

// differs reports whether the outcomes up to an entry were others here.
func (d *digests) differs(seq int64, digest engine.Digest) bool {
	for i := range d.at {
		if d.at[i].seq == seq && d.at[i].seq != 0 {
			return d.at[i].digest != digest
		}
	}
	return false
}
