package replica

import (
	"cmp"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// record is what is known of a call, so that it can be told as a fact.
type record struct {
	fact      engine.Charged // but for Ago and Hold
	at        int64          // the instant at which it was admitted
	holdUntil int64          // the instant at which it expires; 0 for never
	ending    bool           // its end was told
}

// recordOf returns what the engine knows of an open call.
func recordOf(c *account.Call) *record {
	name := engine.Name{Asked: c.Asked, Counted: c.Asked}
	if c.Model != nil {
		name.Counted = c.Model.Name
	}
	return &record{
		fact: engine.Charged{ID: c.ID, Name: name, Tokens: c.Tokens, Most: c.Most, Class: c.Class, Open: true},
		at:   c.At.Instant, holdUntil: c.HoldUntil,
	}
}

// tell returns the fact as it is at an instant.
func (k *record) tell(instant int64) engine.Charged {
	c := k.fact
	c.Ago = max(instant-k.at, 0)
	if c.Open && k.holdUntil > 0 {
		c.Hold = max(k.holdUntil-instant, 1)
	}
	return c
}

// end notes how the call has ended.
func (k *record) end(c engine.Settle) {
	k.fact.Open, k.fact.How, k.fact.Used, k.fact.Cost = false, c.How, c.Used, c.Cost
}

// journal is what was applied within a window, to be told where a log was lost. An entry is known
// to a log that has heard its process say a number as great.
type journal []entry

type entry struct {
	process, n int64
	at         int64          // the instant
	fact       *record        // of a call, or
	setting    engine.Command // a command that is to be told as it is
}

// note adds what an entry has brought about.
func (j *journal) note(process, n int64, r *fleet.Result, e *engine.Engine, ended *record) {
	verb, is := r.Command.(fleet.Verb)
	add := func(fact *record, setting engine.Command) {
		*j = append(*j, entry{process, n, r.Now.Instant, fact, setting})
	}
	calls := r.Outcome.Calls
	for i := range r.Outcome.Ended {
		calls = append(calls[:len(calls):len(calls)], r.Outcome.Ended[i].Calls...)
	}
	for _, id := range calls {
		if c := e.Call(id); c != nil {
			add(recordOf(c), nil)
		}
	}
	if !is || r.Outcome.Ignored {
		return
	}
	switch c := verb.Command.(type) {
	case engine.Settle:
		if ended != nil {
			ended.end(c)
			add(ended, nil)
		}
	case engine.Charged:
		add(&record{fact: c, at: r.Now.Instant - c.Ago}, nil)
	case engine.Record:
		add(&record{at: r.Now.Instant, fact: recorded(&c, process, n)}, nil)
	case engine.Admit, engine.Enter, engine.Leave, engine.Arrive, engine.Advance, engine.Observe, engine.Refuse:
	default:
		add(nil, c)
	}
}

// recorded returns the fact of a call that was sent without a reservation.
func recorded(c *engine.Record, process, n int64) engine.Charged {
	return engine.Charged{ID: account.ID{Process: process, N: n}, Name: c.Name, Tokens: c.Used, Used: c.Used, Most: c.Cost, Cost: c.Cost}
}

// forget forgets what was applied before the cut.
func (j *journal) forget(cut int64) {
	n := 0
	for n < len(*j) && (*j)[n].at < cut {
		n++
	}
	if n > len(*j)/2 {
		*j = slices.Clone((*j)[n:])
	}
}

// missing returns what a state does not know, to be told to it.
func (j journal) missing(s *fleet.State, instant, cut int64) (commands []engine.Command) {
	var facts []engine.Charged
	for i := range j {
		k := &j[i]
		if m := s.Member(k.process); m != nil && m.N >= k.n || k.at < cut {
			continue
		}
		if k.fact != nil {
			facts = append(facts, k.fact.tell(instant))
		} else {
			commands = append(commands, k.setting)
		}
	}
	slices.SortStableFunc(facts, compareFacts)
	for _, c := range facts {
		commands = append(commands, c)
	}
	return commands
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
