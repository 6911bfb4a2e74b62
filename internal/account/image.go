package account

import (
	"cmp"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// The bits of what an image of an account has.
const (
	hasUsage = 1 << iota
	hasCooldown
	hasReports
	hasSearch
	hasSpend
	hasOpen
	hasMonth
	hasRecent
	hasAll = 1<<iota - 1
)

// AppendImage appends the account as bytes from which ReadAccount makes one that decides in the
// same way from then on. Its name, its quota and its calls are not among them, and neither is what
// only this process knows. The account must have been pruned at the cut of the last moment.
func (a *Account) AppendImage(to []byte, last Now, span int64) []byte {
	var has uint64
	for _, is := range [...]struct {
		bit   uint64
		holds bool
	}{
		{hasUsage, a.shown}, {hasCooldown, a.CoolUntil != 0}, {hasReports, a.Reports != nil}, {hasOpen, a.InFlight > 0},
	} {
		if is.holds {
			has |= is.bit
		}
	}
	for i := range rares {
		if rares[i].kept(a) != nil {
			has |= rares[i].bit
		}
	}
	to = wire.AppendUint(to, has)
	to = wire.AppendInt(wire.AppendInt(to, a.Day.Begin), a.Day.End)
	to = wire.AppendInt(to, a.Day.ended)
	to = wire.AppendUint(to, a.Seed)
	if has&hasCooldown != 0 {
		to = wire.AppendString(wire.AppendInt(to, a.CoolUntil), a.CoolCause)
	}
	if has&hasReports != 0 {
		to = appendReports(to, a.Reports)
	}
	for i := range rares {
		if x := rares[i].kept(a); x != nil {
			to = x.AppendImage(to)
		}
	}
	if has&hasOpen != 0 {
		o := &a.Open
		to = wire.AppendUint(wire.AppendUint(to, uint64(o.Requests)), uint64(o.Input))
		to = wire.AppendUint(wire.AppendUint(to, uint64(o.Output)), uint64(o.Money))
		to = wire.AppendUint(to, uint64(o.Arrived))
	}
	cut := last.Instant - span
	to = a.Meter.appendImage(to, cut)
	uses := slices.SortedFunc(slices.Values(a.Uses), func(a, b *Use) int { return cmp.Compare(a.Class, b.Class) })
	to = wire.AppendUint(to, uint64(len(uses)))
	for _, u := range uses {
		to = wire.AppendInt(wire.AppendString(to, u.Class), u.SeenAt)
		to = u.Meter.appendImage(wire.AppendUint(to, uint64(u.Waiting)), cut)
	}
	return to
}

// As is what an account is read as: it is not in the image.
type As struct {
	Name      string
	Quota     state.Quota
	Known     bool
	Zone      *Zone // of the quota's day; nil for none
	SpendZone *Zone
	Last      Now
	Span      int64
}

// ReadAccount reads an image. What it returns after an error is of no use.
func ReadAccount(r *wire.Reader, as *As) *Account {
	a := New(as.Name)
	a.Quota, a.Traits = as.Quota, traitsOf(&as.Quota, as.Known, as.Zone)
	a.Day.zone, a.Day.serial = dayZone(&as.Quota, as.Zone), 1
	has := r.UpTo(hasAll)
	a.shown = has&hasUsage != 0
	a.Day.Begin, a.Day.End, a.Day.ended = r.Int(), r.Int(), r.Int()
	if a.Seed = r.Uint(); a.Seed == 0 {
		r.Fail("no seed")
	}
	if has&hasCooldown != 0 {
		a.Cool(r.Int(), readText(r))
		if a.CoolUntil == 0 {
			r.Fail("cooldown without an end")
		}
	}
	if has&hasReports != 0 {
		a.Report(readReports(r))
	}
	for i := range rares {
		rares[i].read(a, r, as, has&rares[i].bit != 0)
	}
	if has&hasOpen != 0 {
		a.Open.Requests = int(r.UpTo(math.MaxInt))
		a.Open.Input, a.Open.Output = int(r.UpTo(math.MaxInt)), int(r.UpTo(math.MaxInt))
		a.Open.Money, a.Open.Arrived = money.Amount(r.UpTo(math.MaxInt64)), int(r.UpTo(math.MaxInt32))
	}
	a.Meter.read(r, a, as)
	for range r.Count(math.MaxInt, 7) {
		class := readText(r)
		if n := len(a.Uses); n > 0 && a.Uses[n-1].Class >= class {
			r.Fail("class out of order")
		}
		if r.Err() != nil {
			break
		}
		u := a.NeedUse(class)
		u.SeenAt, u.Waiting = r.Int(), int(r.UpTo(math.MaxInt32))
		u.Meter.read(r, nil, as)
	}
	if a.Day.Begin != 0 {
		a.Day.show()
	}
	return a
}

func readText(r *wire.Reader) string { return r.String(math.MaxInt) }

func appendReports(to []byte, u *External) []byte {
	for i := range u {
		to = wire.AppendUint(to, uint64(u[i].Amount))
		if u[i].Amount > 0 {
			to = wire.AppendInt(wire.AppendInt(to, u[i].Until), u[i].SentAt)
		}
	}
	return to
}

func readReports(r *wire.Reader) *External {
	u := new(External)
	for i := range u {
		if u[i].Amount = int(r.UpTo(math.MaxInt)); u[i].Amount > 0 {
			u[i].Until, u[i].SentAt = r.Int(), r.Int()
		}
	}
	return u
}

// appendImage appends what the meter counts from the cut on. Calls in flight follow from the calls.
func (m *Meter) appendImage(to []byte, cut int64) []byte {
	requests, used := 0, 0
	if m.days == m.day.serial {
		requests, used = max(m.usage.DayCount, 0), max(m.usage.DayTokens, 0)
	}
	to = wire.AppendUint(wire.AppendUint(to, uint64(requests)), uint64(used))
	to = wire.AppendUint(to, uint64(m.requests.Len()))
	to = wire.AppendUint(to, uint64(m.tokens.Len()))
	together := m.isTogether()
	to = wire.AppendBool(to, together)
	at := cut
	for i := range m.requests.Len() {
		to = wire.AppendUint(to, uint64(m.requests.When(i)-at))
		at = m.requests.When(i)
		if together {
			to = appendCount(to, m.sums.Values()[i])
		}
	}
	if at = cut; !together {
		for i := range m.tokens.Len() {
			to = wire.AppendUint(to, uint64(m.tokens.When(i)-at))
			at = m.tokens.When(i)
			to = appendCount(to, m.sums.Values()[i])
		}
	}
	return m.pace.AppendImage(to)
}

// isTogether reports whether each request has its tokens at its instant.
func (w *Window) isTogether() bool {
	if w.requests.Len() != w.tokens.Len() {
		return false
	}
	for i := range w.requests.Len() {
		if w.requests.When(i) != w.tokens.When(i) {
			return false
		}
	}
	return true
}

func appendCount(to []byte, c state.Count) []byte {
	return wire.AppendUint(wire.AppendUint(to, uint64(c.Input)), uint64(c.Output))
}

// read reads the image of a meter: of an account's, or of that of a class in it.
func (m *Meter) read(r *wire.Reader, a *Account, as *As) {
	requests, used := int(r.UpTo(math.MaxInt)), int(r.UpTo(math.MaxInt))
	n, k := r.Count(math.MaxInt, 1), r.Count(math.MaxInt, 1)
	together := r.Bool()
	if together && n != k {
		r.Fail("requests without their tokens")
	}
	cut := as.Last.Instant - as.Span
	at := cut
	next := func() int64 {
		at += int64(r.UpTo(uint64(max(as.Last.Instant-at, 0))))
		return at
	}
	asked, entries, counts := make([]int64, n), make([]int64, k), make([]state.Count, k)
	for i := 0; i < n && r.Err() == nil; i++ {
		if asked[i] = next(); together {
			entries[i], counts[i] = at, readCount(r)
		}
	}
	at = cut
	for i := 0; !together && i < k && r.Err() == nil; i++ {
		entries[i], counts[i] = next(), readCount(r)
	}
	if r.Err() != nil {
		return
	}
	m.restore(asked, entries, counts, as.Last.TimeAt)
	if !together && m.isTogether() {
		r.Fail("requests apart from their tokens")
	}
	m.days = m.day.serial
	m.setDay(requests, used)
	m.show()
	m.readPace(r, a, n, k)
}

// readPace reads the buckets, which only those of an account are.
func (m *Meter) readPace(r *wire.Reader, a *Account, requests, tokens int) {
	b := readBuckets(r)
	if b == nil || r.Err() != nil {
		return
	}
	if a == nil {
		r.Fail("buckets of a class")
		return
	}
	if q, paces := pacing(&a.Quota); !paces || !b.Of(q) || !b.Fits(requests, tokens) {
		r.Fail("buckets of another quota or window")
		return
	}
	m.pace = b
}

func readCount(r *wire.Reader) state.Count {
	c := state.Count{Input: int(r.UpTo(math.MaxInt)), Output: int(r.UpTo(math.MaxInt))}
	if c != c.Clamp() {
		r.Fail("tokens out of range")
		return state.Count{}
	}
	return c
}
