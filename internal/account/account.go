package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Account is a model or a pool: its quota, and what was charged to it. Accounts are not safe for
// concurrent use; methods that only read may run beside each other.
type Account struct {
	Name   string      // under which it is counted; that of a pool has the mark of state.PoolName
	Seed   uint64      // of what is random in its searches; not 0
	Quota  state.Quota // that limits it: see SetQuota
	Traits Traits      // what of the quota and of the account is not plain
	Listed bool        // it has a quota of its own, and so always a place

	Meter     // of all its calls
	Day   Day // in which its limits of the day count

	Open    Open // what its open calls have charged
	Waiting int  // places in its line

	CoolUntil int64  // in UnixNano: nothing is admitted before
	CoolCause string // why

	Extras  []Extra   // the limits that few accounts have, as far as they are not nil
	Found   *Found    // of a quota that searches for limits
	Spend   *Spend    // where money is counted
	Month   *Month    // of a quota that limits tokens per month
	Recent  *Recent   // of one that limits the spend of ten minutes
	Reports *External // the usage of others, as the provider reports it; nil for none
	Uses    []*Use    // of the classes with a reserve that have asked

	Pools   []*Account                    // of a model that is asked for by its counted name,
	PoolsAt int                           // as of this version of the catalog
	Place   struct{ Prev, Next *Account } // among the models that hold a place

	Gone  bool // it is no longer among the accounts; an open call may still hold it
	Local any  // what the process notes beside it; no decision looks at it, no image has it

	started time.Time // Usage.DayStart, as the account has it
	dayWas  int       // Usage.DayCount, as the account has left it
	owes    int64
	shown   bool // its usage is there: something was charged since it was last forgotten
}

// Open sums up what the open calls of an account have charged and may give back: an upper bound,
// because some of it may have left the minute.
type Open struct {
	state.Cost     // but the requests of calls that have arrived
	Arrived    int // calls in flight that have arrived
}

// Traits are what makes an account more than three plain limits. Zero is an account that limits
// requests and tokens per minute, and requests per day, and nothing else.
type Traits uint16

// The traits.
const (
	Unknown   Traits = 1 << iota // no quota stands for it
	Unlimited                    // its quota limits nothing
	Invalid                      // its quota is out of range, or its zone is not known
	Rest                         // limits of input, output, tokens of the day or calls in flight
	Paces                        // its quota spreads calls
	Adapts                       // its quota searches for limits
	Spends                       // its quota limits spend
	Cools                        // there is a cooldown, which may be over
	Reported                     // others use it
	Reserved                     // classes with a reserve have asked
	Zoned                        // its day is that of a zone
	Monthly                      // its quota limits the tokens of a month
)

// New returns an account without charges. Nothing limits it until SetQuota.
func New(name string) *Account {
	a := &Account{Name: name, Seed: 1, Traits: Unknown}
	a.Day.of = a
	a.Meter = newMeter(&a.Day)
	a.Meter.account = a
	a.usage.Owner = a
	return a
}

// IsPool reports whether the account is that of a pool.
func (a *Account) IsPool() bool { return state.IsPool(a.Name) }

// SetQuota says which quota limits the account; known is false where none does. zone is that of
// the quota's day, and may be nil where it names none. Bind follows.
func (a *Account) SetQuota(q state.Quota, known bool, zone *Zone, now Now, span int64) {
	traits := traitsOf(&q, known, zone)
	zone = dayZone(&q, zone)
	byHand := !a.mirrorsEntries()
	if !byHand && ((a.Traits|traits)&Paces != 0 || a.Day.zone != zone) { // else what has expired may stay shown
		a.Refresh(now, span)
	}
	a.Quota, a.Traits = q, a.Traits&(Cools|Reported|Reserved)|traits
	switch {
	case byHand: // what is shown is adopted before anything looks at it
		a.Day.zone = zone
	case a.Day.zone != zone:
		a.Day.rezone(zone, now.Wall)
	}
	a.repace(now, span)
}

// traitsOf returns the traits that an account has by its quota.
func traitsOf(q *state.Quota, known bool, zone *Zone) (traits Traits) {
	_, bad := q.Invalid()
	_, paces := pacing(q)
	for _, is := range [...]struct {
		trait Traits
		holds bool
	}{
		{Unknown, !known},
		{Unlimited, known && q.IsUnlimited()},
		{Invalid, bad || q.DayZone != "" && (zone == nil || !zone.IsKnown())},
		{Rest, q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight != 0},
		{Paces, paces},
		{Adapts, q.Adapts()},
		{Spends, q.LimitsSpend()},
		{Zoned, q.DayZone != ""},
		{Monthly, q.MaxTokensPerMonth != 0},
	} {
		if is.holds {
			traits |= is.trait
		}
	}
	return traits
}

// dayZone returns the zone of the day of a quota; nil for 24 hours.
func dayZone(q *state.Quota, zone *Zone) *Zone {
	if q.DayZone == "" || zone == nil || !zone.IsKnown() {
		return nil
	}
	return zone
}

// Has reports whether the account has any of some traits.
func (a *Account) Has(some Traits) bool { return a.Traits&some != 0 }

// IsPlain reports whether nothing of the account but its minute and its day looks at the time.
func (a *Account) IsPlain() bool {
	return a.Traits&^(Unknown|Unlimited|Rest|Zoned) == 0 && len(a.Extras) == 0
}

// LimitsSlots reports whether the quota limits the calls in flight, by a number or by one that is
// searched for.
func (a *Account) LimitsSlots() bool { return a.Quota.MaxInFlight != 0 || a.Quota.AdaptsSlots() }

// Refresh drops the charges that left the minute before a moment, and ends a day that is over. span
// is how long a charge counts at most.
func (a *Account) Refresh(now Now, span int64) {
	if a.IsFresh(now, span) {
		return
	}
	if cut := now.Instant - span; cut > a.oldest || len(a.Uses) > 0 {
		a.Prune(cut)
	}
	if !a.Day.Holds(now.Wall) {
		a.Day.roll(now.Wall)
	}
	if a.pace == nil && a.Has(Paces) { // it was forgotten
		a.repace(now, span)
	}
}

// IsFresh reports whether Refresh certainly has nothing to do. It is short enough to be inlined.
func (a *Account) IsFresh(now Now, span int64) bool {
	return now.Instant-span <= a.oldest && len(a.Uses) == 0 && a.Day.Holds(now.Wall) && a.Traits&Paces == 0
}

// Prune drops the charges of the minute that lie before the cut.
func (a *Account) Prune(cut int64) {
	a.Meter.refresh(cut)
	for _, u := range a.Uses {
		u.refresh(cut)
	}
}

// IsIdle reports whether nothing of the account counts at a moment.
func (a *Account) IsIdle(now Now, span int64) bool {
	requests, tokens, _ := a.DayUsed(now.Wall)
	return requests|tokens == 0 && a.Window.IsEmpty(now.Instant-span) && a.Lasts(now) == 0
}

// Forget forgets all charges. Calls in flight stay in flight, and those that wait go on waiting.
func (a *Account) Forget(now Now) {
	a.Meter.forget()
	a.Day.serial++
	a.days = a.Day.serial
	a.Day.Span = Span{}
	for _, u := range a.Uses {
		u.forget()
	}
	a.shown = false
	for _, x := range a.Extras {
		x.Forget(a.InFlight > 0, now)
	}
}

// Cool has nothing be admitted before a time, in UnixNano; 0 ends that.
func (a *Account) Cool(until int64, cause string) {
	a.CoolUntil, a.CoolCause = until, cause
	if a.Traits &^= Cools; until != 0 {
		a.Traits |= Cools
	}
}

// Report notes what others use; nil for nothing.
func (a *Account) Report(u *External) {
	a.Reports = u
	if a.Traits &^= Reported; u != nil {
		a.Traits |= Reported
	}
}

// Owe notes until which instant the store of this process may hold superseded rows of the account,
// which therefore must not forget its usage.
func (a *Account) Owe(until int64) { a.owes = max(a.owes, until) }

// Owes reports whether that is so.
func (a *Account) Owes(instant int64) bool { return instant < a.owes }

// Show notes that the account has usage, after a call that it had forgotten was charged anew.
func (a *Account) Show() { a.shown = true }

// IsShown reports whether anything was charged since the account was last forgotten.
func (a *Account) IsShown() bool { return a.shown }

// HasPlace reports whether the account has a place among the accounts for more than a while: it has
// a quota of its own, or is a pool, or has usage.
func (a *Account) HasPlace() bool { return a.Listed || a.shown || a.IsPool() }

// Usage returns what the account shows of itself. It changes with each charge.
func (a *Account) Usage() *Usage { return a.usage }

// begin prepares a charge.
func (a *Account) begin(now Now) {
	a.shown = true
	a.Day.begin(now.Wall)
}

// add adds what an open call has charged.
func (o *Open) add(requests int, c state.Count, m money.Amount) {
	o.Requests += requests
	o.Count = o.Plus(c)
	o.Money = o.Money.Add(m)
}

// less is the reverse of add.
func (o *Open) less(requests int, c state.Count, m money.Amount) {
	o.Requests = max(o.Requests-requests, 0)
	o.Input, o.Output = max(o.Input-c.Input, 0), max(o.Output-c.Output, 0)
	o.Money = max(o.Money.Sub(m), 0)
}
