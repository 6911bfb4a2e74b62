package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// imageVersion is the first number of an image. Another one is another form.
const imageVersion = 1

// AppendImage appends the whole state as bytes, from which Read makes an engine that goes on as
// this one. The same state has the same bytes. What has expired is dropped before, so the image
// needs the lock of a verb. What only this process knows is not in it, and neither are waiters that
// have ended and were not taken: see Done.
func (e *Engine) AppendImage(to []byte) []byte {
	e.prune()
	to = wire.AppendUint(to, imageVersion)
	to = wire.AppendInt(wire.AppendInt(to, e.last.Instant), e.last.Wall)
	to = wire.AppendUint(wire.AppendUint(to, uint64(e.span)), uint64(e.serial))
	to = wire.AppendUint(to, e.seed)
	to = wire.AppendInt(to, int64(e.places.most))
	to = e.Catalog.AppendImage(to)
	to = appendClasses(to, e.classes)
	to = e.appendZones(to)
	to = e.other.AppendImage(to, e.last, e.span)
	among := e.sorted()
	to = wire.AppendUint(to, uint64(len(among.All)))
	for _, a := range among.All {
		to = a.AppendImage(wire.AppendString(to, a.Name), e.last, e.span)
	}
	to = wire.AppendUint(to, uint64(e.places.len))
	for a := e.places.first; a != nil; a = a.Place.Next {
		to = wire.AppendUint(to, uint64(among.At[a]))
	}
	to = e.appendCalls(to, among)
	return e.lines.AppendImage(to, asks{e}, among.At)
}

// sorted returns the accounts by name.
func (e *Engine) sorted() *account.Accounts {
	among := &account.Accounts{Other: e.other, At: make(map[*account.Account]int, len(e.accounts))}
	for _, a := range e.accounts {
		among.All = append(among.All, a)
	}
	slices.SortFunc(among.All, func(a, b *account.Account) int { return cmp.Compare(a.Name, b.Name) })
	for i, a := range among.All {
		among.At[a] = i
	}
	return among
}

// appendZones appends the zones whose bounds were told. Others are found again by the quotas that
// name them.
func (e *Engine) appendZones(to []byte) []byte {
	var known []*account.Zone
	for _, z := range e.zones {
		if z.IsKnown() {
			known = append(known, z)
		}
	}
	slices.SortFunc(known, func(a, b *account.Zone) int { return cmp.Compare(a.Name, b.Name) })
	to = wire.AppendUint(to, uint64(len(known)))
	for _, z := range known {
		to = appendSpan(appendSpan(wire.AppendString(to, z.Name), z.Day), z.Month)
	}
	return to
}

func (e *Engine) appendCalls(to []byte, among *account.Accounts) []byte {
	to = wire.AppendUint(to, uint64(len(e.open.all)))
	serial := int64(0)
	for c := range e.Open {
		to = wire.AppendUint(to, uint64(c.Serial-serial))
		serial = c.Serial
		to = c.AppendImage(to, among, e.last)
	}
	to = wire.AppendUint(to, uint64(len(e.told.order)))
	for _, t := range e.told.order {
		to = wire.AppendUint(appendID(to, t.id), uint64(e.last.Instant-t.at))
	}
	return to
}

// Read returns the engine of an image. observer may be nil.
func Read(image []byte, observer Observer) (*Engine, error) {
	r := wire.NewReader(image)
	e := New(0, observer)
	if v := r.Uint(); r.Err() == nil && v != imageVersion {
		return nil, fmt.Errorf("read image: version %d, want %d", v, imageVersion)
	}
	e.read(r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	return e, nil
}

func (e *Engine) read(r *wire.Reader) {
	e.last = account.Now{Instant: r.Within(0, farthest), Wall: r.Within(0, farthest)}
	e.span, e.serial = int64(r.UpTo(uint64(longestSpan))), int64(r.UpTo(math.MaxInt64>>1))
	if e.seed = r.Uint(); e.span < account.Minute {
		r.Fail("minute that is too short")
	}
	e.lines.SetSpan(e.span)
	e.places.most = r.Small(math.MinInt, math.MaxInt)
	known, err := catalog.Read(r)
	if err != nil {
		return
	}
	e.Catalog = known
	e.setClasses(readClasses(r))
	e.readZones(r)
	among := e.readAccounts(r)
	if r.Err() != nil {
		return
	}
	e.readPlaces(r, among)
	e.readCalls(r, among)
	if r.Err() != nil {
		return
	}
	e.lines.Read(r, asks{e}, among.All, lineClasses(e.classes), e.last)
	for _, w := range e.lines.Waiters() {
		if e.waiters == nil {
			e.waiters = make(map[account.ID]*lines.Waiter)
		}
		e.waiters[w.ID] = w
	}
}

func (e *Engine) readZones(r *wire.Reader) {
	last := ""
	for i, n := 0, r.Count(math.MaxInt, 5); i < n && r.Err() == nil; i++ {
		name := readString(r)
		if i > 0 && name <= last {
			r.Fail("zone out of order")
			return
		}
		last = name
		z := e.needZone(name)
		if z.Day, z.Month = readSpan(r), readSpan(r); !z.IsKnown() {
			r.Fail("zone that nobody knows")
		}
	}
}

func (e *Engine) readAccounts(r *wire.Reader) *account.Accounts {
	among := &account.Accounts{}
	e.other = account.ReadAccount(r, &account.As{
		Name: state.OtherAccount, SpendZone: e.zoneOfSpend(""), Last: e.last, Span: e.span,
	})
	_, used := e.other.LastAt()
	if among.Other = e.other; e.other.Spend == nil || used {
		r.Fail("no account of the models without room, or one that counts more than money")
		return among
	}
	as := account.As{Last: e.last, Span: e.span}
	for n := r.Count(math.MaxInt, 9); n > 0 && r.Err() == nil; n-- {
		as.Name = readString(r)
		if k := len(among.All); k > 0 && among.All[k-1].Name >= as.Name {
			r.Fail("account out of order")
			break
		}
		_, as.Quota, as.Known = e.Catalog.Cover(as.Name)
		as.Zone, as.SpendZone = e.zone(as.Quota.DayZone), e.zoneOfSpend(as.Quota.DayZone)
		a := account.ReadAccount(r, &as)
		a.Listed = e.Catalog.IsListed(a.Name)
		e.share(a, a.Name)
		e.accounts[a.Name] = a
		among.All = append(among.All, a)
	}
	for _, name := range e.Catalog.Names() { // it may have no account, and still a zone
		q, _ := e.Catalog.Quota(name)
		e.zone(q.DayZone)
	}
	for _, pool := range e.Catalog.PoolNames() {
		if e.accounts[pool] == nil {
			r.Fail("pool without an account")
		}
	}
	return among
}

func (e *Engine) readPlaces(r *wire.Reader, among *account.Accounts) {
	for n := r.Count(len(among.All), 1); n > 0 && r.Err() == nil; n-- {
		a := among.All[r.UpTo(uint64(len(among.All)-1))]
		if e.places.holds(a) || !a.IsShown() || e.Catalog.IsListed(a.Name) {
			r.Fail("place of a model that needs none")
			return
		}
		e.places.use(a)
	}
}

func (e *Engine) readCalls(r *wire.Reader, among *account.Accounts) {
	serial := int64(0)
	for n := r.Count(math.MaxInt, 12); n > 0 && r.Err() == nil; n-- {
		step := int64(r.UpTo(uint64(e.serial - serial)))
		c := e.newCall()
		e.serial--
		serial += step
		account.ReadCall(r, c, among, e.last)
		if step == 0 || c.ID.Process != 0 && e.Call(c.ID) != nil {
			r.Fail("call that is there twice")
			return
		}
		c.Serial = serial
		e.open.add(c)
		if c.HoldUntil != 0 {
			e.holds.put(c)
		}
	}
	for n, last := r.Count(math.MaxInt, 4), int64(0); n > 0 && r.Err() == nil; n-- {
		id := readID(r)
		at := e.last.Instant - int64(r.UpTo(uint64(2*e.span)))
		if e.told.has(id) || at < last {
			r.Fail("call that was told out of order")
			return
		}
		last = at
		e.told.add(id, at)
	}
	for _, a := range among.All {
		if a.InFlight == 0 && a.Open != (account.Open{}) {
			r.Fail("account without open calls that has some")
		}
	}
}

// asks is what the lines let the engine append and read.
type asks struct{ *Engine }

// AppendAsks appends the option of a candidate.
func (asks) AppendAsks(to []byte, c *lines.Candidate) []byte {
	o := OptionOf(c)
	to = wire.AppendUint(to, uint64(o.By.Span))
	to = wire.AppendUint(wire.AppendUint(to, uint64(o.By.HoldTTL)), uint64(o.By.MaxQueue))
	return appendWants(to, WantsOf(nil, o.Requests))
}

// ReadAsks reads an option. The accounts of a candidate that stands in line are there.
func (e asks) ReadAsks(r *wire.Reader, c *lines.Candidate, stands bool) {
	o := &Option{By: By{ID: c.Waiter.ID, Class: c.Class, Flow: c.Flow}}
	o.By.Span = int64(r.UpTo(uint64(e.span)))
	o.By.HoldTTL, o.By.MaxQueue = int64(r.UpTo(uint64(longestHold))), int(r.UpTo(math.MaxInt))
	for _, w := range readWants(r, nil) {
		if stands && e.accounts[w.Counted] == nil {
			r.Fail("model without an account")
			return
		}
		o.Requests = append(o.Requests, Request{
			Target: Target{Counted: w.Counted, Asked: w.Asked}, Tokens: w.Tokens, Most: w.Most, Priced: w.Priced, Deny: w.Deny,
		})
	}
	c.Asks = o
}

// Waiter returns the waiter that a command has entered, as long as it stands in line; nil for none.
func (e *Engine) Waiter(process, n int64) *lines.Waiter {
	return e.waiters[account.ID{Process: process, N: n}]
}
