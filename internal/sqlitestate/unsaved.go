package sqlitestate

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Unsaved knows which part of a limiter's memory its database lacks, so that a save writes only
// that: it compares accounts with what the database is known to have of them. Make one with
// NewUnsaved.
//
// The lock that guards a save guards an Unsaved. Compare, Loaded and End use accounts, which may
// have a lock of their own.
type Unsaved struct {
	known   map[string]*known
	changed map[string]*change // by the comparison under way
	round   int                // counts the comparisons
}

// usage is what an account counts until it is made to forget that. The zero value is none.
type usage struct {
	account *account.Account
	epoch   uint32
}

func usageOf(a *account.Account) usage { return usage{a, a.Epoch()} }

// lasts reports whether the account still counts the usage.
func (u usage) lasts() bool { return u.account != nil && u.account.Epoch() == u.epoch }

// known is the content of the database for a model.
type known struct {
	usage usage // whose entries it has, as far as their logs say
	until int64 // from this instant on none of them counts
	day   state.DayUsage
	zone  *time.Location // at whose midnight the day ends; nil for a day of 24 hours
	round int            // the last comparison that met the model in memory
}

// change is the work of one save for one model.
type change struct {
	Change
	usage   usage // zero if it is not in memory any more
	until   int64 // as in known
	owes    int64 // until this instant the database may have superseded rows
	entries account.Unstored
}

// NewUnsaved returns the Unsaved of an empty database.
func NewUnsaved() *Unsaved { return &Unsaved{known: make(map[string]*known)} }

// Has notes that the database has a model with a day, whatever entries.
func (m *Unsaved) Has(model string, day state.DayUsage) { m.known[model] = &known{day: day} }

// Loaded notes that the database, which Has the model of an account, has its entries as they are.
func (m *Unsaved) Loaded(a *account.Account, now account.Now, span int64) {
	a.Stored()
	c := measure(a, now, span)
	k := m.known[a.Name]
	k.usage, k.until, k.zone = c.usage, c.until, c.Zone
	a.Owe(c.owes)
}

// measure returns how long a store of what an account counts is of use.
func measure(a *account.Account, now account.Now, span int64) *change {
	c := &change{usage: usageOf(a)}
	if last, ok := a.LastAt(); ok {
		c.until = last + span + 1
	}
	var end int64
	c.Day, end = a.StoredDay()
	c.Zone, _ = clock.LoadZone(a.Quota.DayZone)
	if c.owes = c.until; !c.Day.Empty() && end > now.Wall {
		c.owes = max(c.owes, now.Instant+end-now.Wall)
	}
	return c
}

// Begin begins a comparison of all models in memory. The last one must have ended.
func (m *Unsaved) Begin() {
	m.round++
	m.changed = make(map[string]*change)
}

// Compare compares an account at a moment; span is how long its charges of the minute count. If it
// differs, Compare returns true, what the database lacks counts as being written until End, and the
// entries must stay where and as they are as long as the changes are read. An account that is met
// twice counts as it was then.
func (m *Unsaved) Compare(a *account.Account, now account.Now, span int64) (differs bool) {
	k := m.known[a.Name]
	if k != nil {
		k.round = m.round
	}
	differs, forget := compare(k, a, now)
	if !differs {
		return false
	}
	c := measure(a, now, span)
	c.entries = a.BeginStore()
	c.Model = a.Name
	c.Requests, c.Tokens = c.entries.Requests.Added, []state.Token(c.entries.Tokens.Added)
	for _, fix := range c.entries.Requests.Corrected {
		c.RequestFixes = append(c.RequestFixes, Fix[time.Time]{Value: fix.Value, Added: fix.Added})
	}
	for _, fix := range c.entries.Tokens.Corrected {
		c.TokenFixes = append(c.TokenFixes, Fix[state.Token]{Value: fix.Value, Added: fix.Added})
	}
	c.Continues, c.Forget = k != nil && k.usage == c.usage, forget
	a.Owe(c.owes)
	m.changed[a.Name] = c
	return true
}

// compare reports whether an account differs from what is known to be stored, and whether that is
// to be forgotten. A usage other than the one that was written is all new. What was written of the
// old one is then no longer true, because the program reset the model or replaced its entry, unless
// the old one went because nothing in it was counted any more.
func compare(k *known, a *account.Account, now account.Now) (differs, forget bool) {
	switch {
	case k == nil:
		return true, false
	case k.usage != usageOf(a):
		return true, !k.hasLapsed(now)
	}
	day, _ := a.StoredDay()
	return !a.IsStored() || !k.day.Same(day), false
}

// hasLapsed reports whether nothing that is known to be stored counts any more. Where the usage is
// not known, something might.
func (k *known) hasLapsed(now account.Now) bool {
	return k.usage.account != nil && now.Instant >= k.until && !k.day.CurrentIn(k.zone, now.Wall)
}

// AddGone ends the comparison, at a moment, with the models that the database has and memory has no
// longer.
func (m *Unsaved) AddGone(now account.Now) {
	for model, k := range m.known {
		if k.round == m.round {
			continue
		}
		c := &change{Change: Change{Model: model, Gone: true}}
		if k.hasLapsed(now) {
			c.Continues, c.Day, c.Zone = true, k.day, k.zone
		} else {
			c.Forget = true
		}
		m.changed[model] = c
	}
}

// Changes returns the changes to be written, in the order of the models.
func (m *Unsaved) Changes() []*Change {
	changes := make([]*Change, 0, len(m.changed))
	for _, model := range slices.Sorted(maps.Keys(m.changed)) {
		changes = append(changes, &m.changed[model].Change)
	}
	return changes
}

// End notes whether the database has the changes of the comparison. It calls yield now and then,
// which may let others use the accounts. Without a comparison it does nothing.
func (m *Unsaved) End(ok bool, yield func()) {
	for model, c := range m.changed {
		c.end(ok)
		switch {
		case !ok:
		case c.Gone:
			delete(m.known, model)
		default:
			m.known[model] = &known{usage: c.usage, until: c.until, day: c.Day, zone: c.Zone, round: m.round}
		}
		yield()
	}
	m.changed = nil
}

// end tells the account of a change whether the database has that.
func (c *change) end(ok bool) {
	a := c.usage.account
	if !c.usage.lasts() {
		return
	}
	a.EndStore(ok, c.entries)
	if day, _ := a.StoredDay(); ok && a.IsStored() && day.Same(c.Day) {
		a.OweOnly(c.owes)
	}
}
