package engine_test

import (
	"cmp"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// book is the oracle of one account, written from the documents: it keeps every charge for ever,
// and decides by looking at all of them. It knows nothing of sums, queues and cuts.
type book struct {
	name   string
	quota  state.Quota
	known  bool
	listed bool
	pool   bool
	span   int64

	minute []*bookEntry
	days   []*bookEntry // what counts to days
	day    *day         // the present or the last one; nil for none
	ended  int64        // the end of the last day that is over and was used
	open   []*bookCharge
	cool   int64
	spent  []*payment
	seen   map[string]int64 // when classes asked last
	shares map[string]int   // their reserves in percent
	held   [state.Dimensions]part
	shown  bool
	usedAt int // the order of the last use
}

// bookEntry is something that counts.
type bookEntry struct {
	at       int64
	requests int
	tokens   state.Count
	class    string
	day      *day
	gone     bool
}

type day struct{ begin, end int64 }

type part struct {
	amount int
	until  int64
}

// payment is money that counts to a day and to a month.
type payment struct {
	day, month *day
	amount     money.Amount
}

// bookCharge is what a call has charged to a book.
type bookCharge struct {
	book      *book
	at        int64
	minute    *bookEntry
	inDay     *bookEntry
	class     string
	forgotten bool
	most      money.Amount
	paidAt    int64
	arrived   bool
}

// zoneOf returns a time zone by its name.
func zoneOf(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}

// calendar returns the day and the month of a zone at a time.
func calendar(zone string, wall int64) (is, month account.Span) {
	t := time.Unix(0, wall).In(zoneOf(zone))
	y, m, d := t.Date()
	at := func(m time.Month, d int) int64 { return time.Date(y, m, d, 0, 0, 0, 0, t.Location()).UnixNano() }
	return account.Span{Begin: at(m, d), End: at(m, d+1)}, account.Span{Begin: at(m, 1), End: at(m+1, 1)}
}

const dayLong = int64(24 * time.Hour)

// dayAt returns the day that begins with a charge at a time.
func (b *book) dayAt(wall int64) day {
	if b.quota.DayZone == "" {
		return day{wall, wall + dayLong}
	}
	is, _ := calendar(b.quota.DayZone, wall)
	return day{is.Begin, is.End}
}

// ofDay adds up what counts to a day.
func (b *book) ofDay(d *day, class string) (sum bookEntry) {
	for _, e := range b.days {
		if !e.gone && e.day == d && (class == "" || e.class == class) {
			sum.requests += e.requests
			sum.tokens = sum.tokens.Plus(e.tokens)
		}
	}
	return sum
}

func (b *book) dayIsUsed() bool {
	sum := b.ofDay(b.day, "")
	return b.day != nil && (sum.requests > 0 || sum.tokens != state.Count{})
}

// turn ends a day that is over. One from the future, because the clock was set back, begins now.
func (b *book) turn(wall int64) {
	switch {
	case b.day == nil:
	case wall < b.day.begin:
		*b.day = b.dayAt(wall)
	case wall >= b.day.end:
		if b.dayIsUsed() {
			b.ended = b.day.end
		}
		b.day = nil
	}
}

// intoDay counts something to the day that lasts at a time.
func (b *book) intoDay(wall int64, e bookEntry) *bookEntry {
	if !b.dayIsUsed() {
		d := b.dayAt(wall)
		b.day = &d
	}
	e.day = b.day
	b.days = append(b.days, &e)
	return &e
}

// usedOf returns the usage of a dimension at a moment; of one class, or of all where it is "".
func (b *book) usedOf(of state.Dimension, class string, now account.Now) int {
	var sum bookEntry
	switch state.Limits[of].Window {
	case state.Settled:
		for _, c := range b.open {
			if class == "" || c.class == class {
				sum.requests++
			}
		}
	case state.Day:
		if b.day != nil && now.Wall < b.day.end {
			sum = b.ofDay(b.day, class)
		}
	default:
		for _, e := range b.minute {
			if !e.gone && now.Instant-e.at <= b.span && (class == "" || e.class == class) {
				sum.requests += e.requests
				sum.tokens = sum.tokens.Plus(e.tokens)
			}
		}
	}
	c := state.Cost{Requests: sum.requests, Count: sum.tokens}
	return c.Of(of)
}

// heldOf returns what is held back from a class: for others, as the provider reports, and for
// classes with a reserve that asked in the last minute.
func (b *book) heldOf(of state.Dimension, a *ask, now account.Now) (held int) {
	time := now.Instant
	if state.Limits[of].Window == state.Day {
		time = now.Wall
	}
	if h := b.held[of]; h.until > time {
		held = h.amount
	}
	limit, taken := *b.quota.Limit(of), 0
	for _, class := range slices.Sorted(keys(b.shares)) {
		asked, ever := b.seen[class]
		if class == a.class || !ever || now.Instant-asked > b.span {
			continue
		}
		used := b.usedOf(of, class, now)
		taken += used
		if kept := min(limit*b.shares[class]/100-used, limit-min(a.of(of), limit)-taken); kept > 0 {
			taken += kept
			held += kept
		}
	}
	return held
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ask is what requests ask of one book.
type ask struct {
	book   *book
	cost   state.Cost
	class  string
	full   bool
	priced bool
}

func (a *ask) of(d state.Dimension) int { return a.cost.Of(d) }

// order is that in which limits deny.
var order = [...]state.Dimension{state.InFlight, state.RPD, state.TPD, state.RPM, state.ITPM, state.OTPM, state.TPM}

// denial is what the limits of a book say at a moment.
type denial struct {
	code   string // of the first that denies; empty for none
	never  bool   // the request alone exceeds one
	event  bool   // one denies until something ends
	others bool   // others than those of calls in flight deny
	cools  bool
}

// deny looks at all limits.
func (b *book) deny(a *ask, now account.Now) (d denial) {
	add := func(code string) { d.code = cmp.Or(d.code, code) }
	if b.cool > now.Wall {
		add("cooldown")
		d.cools, d.others = true, true
	}
	if !b.known {
		return d
	}
	if a.full {
		add("too_many_models")
		d.others = true
	}
	for _, of := range order {
		if of == state.RPM {
			b.denySpend(&d, a, now, add)
		}
		limit, more := *b.quota.Limit(of), a.of(of)
		if limit == 0 || b.usedOf(of, "", now)+b.heldOf(of, a, now)+more <= limit {
			continue
		}
		add(state.Limits[of].Code)
		d.never = d.never || more > limit
		switch {
		case of != state.InFlight:
			d.others = true
		case b.usedOf(of, "", now)+more > limit:
			d.event = true
		default: // a reserve ends with time
			d.others = true
		}
	}
	return d
}

// denySpend looks at the limits of spend.
func (b *book) denySpend(d *denial, a *ask, now account.Now, add func(string)) {
	q := &b.quota
	if q.MaxSpendPerDay == 0 && q.MaxSpendPerMonth == 0 {
		return
	}
	if !a.priced {
		add("unpriced")
		d.never, d.others = true, true
		return
	}
	today, month := b.spending(now.Wall)
	for _, l := range [...][2]money.Amount{{q.MaxSpendPerDay, today}, {q.MaxSpendPerMonth, month}} {
		if l[0] != 0 && l[1]+a.cost.Money > l[0] {
			add("spend_exceeded")
			d.others = true
			d.never = d.never || a.cost.Money > l[0]
		}
	}
}

// spending returns what was spent in the present day and in the present month.
func (b *book) spending(wall int64) (today, month money.Amount) {
	for _, p := range b.spent {
		if p.day != nil && wall < p.day.end {
			today += p.amount
		}
		if p.month != nil && wall < p.month.end {
			month += p.amount
		}
	}
	return today, month
}

// pay counts money to the day and the month that last: each begins with the first spend in it.
func (b *book) pay(amount money.Amount, wall int64) {
	if amount == 0 {
		return
	}
	p := &payment{amount: amount}
	for _, other := range b.spent {
		if other.day != nil && other.day.begin <= wall && wall < other.day.end && b.isSpentIn(other.day) {
			p.day = other.day
		}
		if other.month != nil && wall < other.month.end {
			p.month = other.month
		}
	}
	if p.day == nil {
		d := b.dayAt(wall)
		for _, other := range b.spent {
			if other.day != nil && other.day.end <= wall {
				d.begin = max(d.begin, other.day.end)
			}
			other.day = nil // it is over, and stays so if the clock is set back
		}
		p.day = &d
	}
	if p.month == nil {
		_, m := calendar(cmp.Or(b.quota.DayZone, "UTC"), wall)
		p.month = &day{m.Begin, m.End}
	}
	b.spent = append(b.spent, p)
}

func (b *book) isSpentIn(d *day) bool {
	var sum money.Amount
	for _, p := range b.spent {
		if p.day == d {
			sum += p.amount
		}
	}
	return sum != 0
}

// repay replaces what was charged at a time by what the call did cost. What exceeds it counts now;
// nothing is given back to a period that is over.
func (b *book) repay(charged money.Amount, paidAt int64, cost money.Amount, wall int64) {
	more := cost - charged
	if more > 0 {
		b.pay(more, wall)
		return
	}
	if more == 0 {
		return
	}
	p := &payment{amount: more}
	for _, other := range b.spent {
		if d := other.day; d != nil && d.begin <= paidAt && wall < d.end {
			p.day = d
		}
		if m := other.month; m != nil && m.begin <= paidAt && wall < m.end {
			p.month = m
		}
	}
	b.spent = append(b.spent, p)
}
