package account

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Prepared is the entries of a usage, put in order for an account that is to adopt them. That takes
// long where they are many, and needs no account.
type Prepared struct {
	Ahead  bool // an entry was from the future, and counts as of now
	window Window
}

// Prepare puts copies of entries in order.
func Prepare(requests []time.Time, entries []state.Token, now Now) *Prepared {
	present := now.Time()
	p := &Prepared{window: Window{oldest: Never}}
	p.Ahead = slices.ContainsFunc(requests, present.Before) ||
		slices.ContainsFunc(entries, func(e state.Token) bool { return present.Before(e.Time) })
	p.window.fill(requests, entries, now)
	return p
}

// LastAt returns the instant of the last entry; ok is false for none.
func (p *Prepared) LastAt() (instant int64, ok bool) { return p.window.LastAt() }

// Loaded is the usage of a name in a file, with its entries in order.
type Loaded struct {
	Name string
	*Usage
	*Prepared
}

// PrepareAll prepares the usage of names, those that were used last at the end.
func PrepareAll(usage map[string]*state.Usage, now Now) []*Loaded {
	all := make([]*Loaded, 0, len(usage))
	for name, u := range usage {
		is := &Usage{DayStart: u.DayStart, DayCount: u.DayCount, DayTokens: u.DayTokens}
		all = append(all, &Loaded{name, is, Prepare(u.Requests, u.Tokens, now)})
	}
	usedAt := func(u *Loaded) int64 {
		if at, ok := u.LastAt(); ok {
			return at
		}
		return math.MinInt64
	}
	slices.SortFunc(all, func(a, b *Loaded) int {
		return cmp.Or(cmp.Compare(usedAt(a), usedAt(b)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Epoch tells what the account counts from what it counted before it was last made to forget that,
// or adopted something else.
func (a *Account) Epoch() uint32 { return a.epoch }

// Pin promises that the entries that the account shows now stay where and as they are, as long as
// reading is true: see ring.Queue.Pin.
func (a *Account) Pin(reading *atomic.Bool) {
	a.requests.Pin(reading)
	a.tokens.Pin(reading)
}

// Unstored is what a store has to write to have the entries of the minute as the account has them.
type Unstored struct {
	Requests ring.Changes[time.Time]
	Tokens   ring.Changes[state.Token]
}

// Stored notes that a store has the entries of the minute as they are.
func (a *Account) Stored() {
	a.requests.StartStoredLog()
	a.tokens.StartStoredLog()
}

// IsStored reports whether that is so.
func (a *Account) IsStored() bool { return a.requests.Log().UpToDate() && a.tokens.Log().UpToDate() }

// BeginStore returns what a store has to write, and counts it as being written until EndStore.
func (a *Account) BeginStore() Unstored {
	return Unstored{a.requests.StartLog().Begin(), a.tokens.StartLog().Begin()}
}

// EndStore notes whether the store has what BeginStore returned, in the same epoch.
func (a *Account) EndStore(ok bool, u Unstored) {
	a.requests.Log().End(ok, u.Requests)
	a.tokens.Log().End(ok, u.Tokens)
}

// StoredDay returns the day as stores have it, and when it ends in UnixNano.
func (a *Account) StoredDay() (day state.DayUsage, end int64) {
	day.Start = a.Day.Begin
	if a.days == a.Day.serial {
		day.Count, day.Tokens = int64(max(a.usage.DayCount, 0)), int64(max(a.usage.DayTokens, 0))
	}
	return day, a.Day.End
}

// OweOnly is Owe for an account of which the store has no superseded rows.
func (a *Account) OweOnly(until int64) { a.owes = until }

// Stored returns what was found, as stores have it; ok is false where nothing was.
func (f *Found) Stored(now Now) (known state.Found, ok bool) {
	if f == nil || f.limits == nil {
		return state.Found{}, false
	}
	return f.limits.Present(now.Instant, now.Wall), true
}

// Spent returns what was spent, and the tokens of the month, as stores have them.
func (a *Account) Spent(now Now) (is state.Spend) {
	if a.Spend != nil {
		is = a.Spend.Spend
	}
	is.Tokens, is.Recent = a.Month.Period(), a.Recent.payments(now)
	return is
}

// StoreBeside puts what lasts beside the usage into a snapshot: the cooldown, what was found, and
// what was spent in the days and months that last.
func (a *Account) StoreBeside(is *state.Snapshot, now Now) {
	if a.CoolUntil > now.Wall {
		is.Cooldowns[a.Name] = state.Cooldown{Until: time.Unix(0, a.CoolUntil), Cause: a.CoolCause}
	}
	if f, ok := a.Found.Stored(now); ok {
		is.Found[a.Name] = f
	}
	if spent := a.Spent(now); !spent.IsOver(now.Wall) {
		is.Spend[a.Name] = spent
	}
}

// LoadSpent makes the spend, and the tokens of the month, those of a file, and adds what was spent
// since that was written.
func (a *Account) LoadSpent(is, since state.Spend, zone *Zone, now Now) {
	a.Month.load(is.Tokens, since.Tokens, zone, now.Wall)
	is.Recent.Add(since.Recent)
	a.Recent.load(is.Recent, now)
	is.Tokens, is.Recent, since.Tokens, since.Recent = state.Period[int64]{}, "", state.Period[int64]{}, ""
	a.NeedSpend(zone).Load(is, since, now.Wall)
}

// Load makes the spend that of a file, and adds what was spent since that was written. A period of
// the file ends where it does in the zone of the account.
func (s *Spend) Load(is, since state.Spend, wall int64) {
	zone := s.zone
	s.Spend, s.zone = is, nil
	s.Rezone(zone, wall)
	s.Add(since)
}
