package outbox

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// packFrom is how many events the outbox holds before it is packed for the first time.
const packFrom = 10_000

// Present is what Pack has to know of the limiter at the present instant. All fields must be set.
type Present struct {
	Process int64 // whose outbox it is
	Instant int64 // the present, on the time line of Event.At
	Horizon int64 // the instant before which a charge counts no more

	// IsOpen reports whether what a Reserve or Wait of this process began is open.
	IsOpen func(*sharedlog.Event) bool
	// IsOver reports whether the day in which a model was charged at an instant is over.
	IsOver func(model string, at int64) bool
}

// IsLong reports whether the outbox has so many events that Pack is worth its time.
func (o *Outbox) IsLong() bool { return len(o.events) >= max(o.packAt, packFrom) }

// Pack makes the outbox shorter: of charges that count no more, only what they add to the day is
// kept, in one Tally for each model, of what was found of a model only the last for each search,
// and of what was spent the sum for each account and period. An event that may be in the log
// already stays as it is, because there it would be known by its number.
//
// Pack returns the new tallies and sums in their order. They are in the outbox already, and the
// caller gives them their numbers.
func (o *Outbox) Pack(present Present) (tallies []*sharedlog.Event) {
	p := newPacking(o, present)
	kept := make([]*sharedlog.Event, 0, len(o.events))
	tally := func(model string) {
		made := p.tallies(model)
		kept, tallies = append(kept, made...), append(tallies, made...)
	}
	for _, e := range o.events {
		switch {
		case e.Kind == sharedlog.Reset:
			tally(e.Model) // what was before it must not be added after it
			kept = append(kept, e)
		case !p.takes(e):
			kept = append(kept, e)
		}
	}
	tally("")
	spends := p.spends()
	kept, tallies = append(kept, spends...), append(tallies, spends...)
	o.Replace(kept)
	o.packAt = 2 * len(kept)
	return tallies
}

// packing is the events that are put together.
type packing struct {
	Present
	outbox  *Outbox
	charges map[int64]*sharedlog.Event // of reservations that are packed, where they are, by number
	waits   map[int64]bool             // places in line that are left already
	found   map[*sharedlog.Event]bool  // say what was found, as later ones do
	days    map[string]*sharedlog.Event
	spent   map[spentIn]state.Spend // what the events add
}

// spentIn is an account and its periods.
type spentIn struct {
	account string
	periods state.Spend
}

func newPacking(o *Outbox, present Present) *packing {
	p := &packing{
		Present: present, outbox: o,
		charges: make(map[int64]*sharedlog.Event), waits: make(map[int64]bool), days: make(map[string]*sharedlog.Event),
		found: supersededFound(o.events), spent: make(map[spentIn]state.Spend),
	}
	latest := make(map[int64]int64) // when the charge of a reservation counts
	for _, e := range o.events {
		switch e.Kind {
		case sharedlog.Move:
			latest[e.Ref] = e.At
		case sharedlog.Reserve:
			latest[e.N] = max(latest[e.N], e.At)
		}
	}
	for _, e := range o.events {
		switch {
		case !p.mayPack(e):
		case e.Kind == sharedlog.Reserve && latest[e.N] < p.Horizon && !p.IsOpen(e):
			p.charges[e.N] = e
		case e.Kind == sharedlog.Wait && !p.IsOpen(e):
			p.waits[e.N] = true
		}
	}
	return p
}

// supersededFound returns those events of what was found that later ones of their model make
// superfluous: each of their searches begins anew with one of these, too.
func supersededFound(events []*sharedlog.Event) map[*sharedlog.Event]bool {
	superseded := make(map[*sharedlog.Event]bool)
	later := make(map[string]int64) // which searches begin anew with later events, by model
	for _, e := range slices.Backward(events) {
		if e.Kind != sharedlog.Found {
			continue
		}
		is, _ := state.ParseFound(e.Text) // this process has made it
		anew, known := later[e.Model]
		superseded[e] = known && is.Anew&^anew == 0
		later[e.Model] = anew | is.Anew
	}
	return superseded
}

// mayPack reports whether an event is surely not in the log.
func (p *packing) mayPack(e *sharedlog.Event) bool {
	return e.N > p.outbox.tried && e.Process == p.Process
}

// takes puts an event to the others, if it can.
func (p *packing) takes(e *sharedlog.Event) bool {
	charge := p.charges[e.Ref]
	switch {
	case !p.mayPack(e):
		return false
	case e.Kind == sharedlog.Tally:
		p.add(e.Model, e.At, sharedlog.DayAdded{Requests: e.Requests, Tokens: e.Total()})
		return true
	case e.Kind == sharedlog.Reserve && p.charges[e.N] != nil, e.Kind == sharedlog.Use && e.At < p.Horizon:
		p.add(e.Model, e.At, p.outbox.added[e])
		return true
	case e.Kind == sharedlog.Move && charge != nil:
		p.add(e.Model, e.At, p.outbox.added[e]) // it may begin another day
		p.charges[e.Ref] = e
		return true
	case e.Kind == sharedlog.Amend && charge != nil, e.Kind == sharedlog.Cancel && charge != nil,
		e.Kind == sharedlog.Release && charge != nil:
		added, at := p.outbox.added[e], charge.At
		if added.Tokens > 0 {
			at = e.At // what is beyond the estimate may be of a later day than the charge
		}
		p.add(e.Model, at, added)
		return true
	case e.Kind == sharedlog.Found:
		return p.found[e]
	case e.Kind == sharedlog.Spend:
		return p.takesSpend(e)
	case e.Kind == sharedlog.Wait:
		return p.waits[e.N]
	case e.Kind == sharedlog.Leave:
		return p.waits[e.Ref]
	}
	return false
}

// add adds to the day of a charge at an instant, unless that day is over.
func (p *packing) add(model string, at int64, added sharedlog.DayAdded) {
	if added.Requests == 0 && added.Tokens == 0 || p.IsOver(model, at) {
		return
	}
	day := p.days[model]
	if day == nil {
		day = &sharedlog.Event{Kind: sharedlog.Tally, Model: model, At: p.Instant}
		p.days[model] = day
	}
	day.Requests = max(day.Requests+added.Requests, 0)
	if added.Tokens > 0 {
		day.Input = tokens.AddSaturated(day.Input, added.Tokens)
	} else {
		day.Input = max(day.Input+added.Tokens, 0)
	}
}

// tallies returns what was put together so far of a model; of all models where it is empty.
func (p *packing) tallies(of string) (events []*sharedlog.Event) {
	for _, model := range slices.Sorted(maps.Keys(p.days)) {
		if of == "" || of == model {
			events = append(events, p.days[model])
			delete(p.days, model)
		}
	}
	return events
}

// takesSpend adds what an event adds to the sum of its account and its periods.
func (p *packing) takesSpend(e *sharedlog.Event) bool {
	change, err := state.ParseSpendChange(e.Text)
	if err != nil {
		return false
	}
	key := spentIn{e.Model, change}
	key.periods.Day.Spent, key.periods.Month.Spent = 0, 0
	is := p.spent[key]
	change.Day.Spent, change.Month.Spent = change.Day.Spent.Add(is.Day.Spent), change.Month.Spent.Add(is.Month.Spent)
	p.spent[key] = change
	return true
}

// spends returns what was spent, the earlier periods first.
func (p *packing) spends() (events []*sharedlog.Event) {
	keys := slices.SortedFunc(maps.Keys(p.spent), func(a, b spentIn) int {
		return cmp.Or(strings.Compare(a.account, b.account), cmp.Compare(a.periods.Month.Begin, b.periods.Month.Begin),
			cmp.Compare(a.periods.Day.Begin, b.periods.Day.Begin), cmp.Compare(a.periods.Day.End, b.periods.Day.End),
			cmp.Compare(a.periods.Month.End, b.periods.Month.End))
	})
	for _, key := range keys {
		events = append(events, &sharedlog.Event{
			Kind: sharedlog.Spend, Model: key.account, At: p.Instant, Text: state.SpendText(p.spent[key]),
		})
	}
	return events
}
