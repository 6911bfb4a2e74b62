package account

import (
	"math"
	"sort"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

const recently = 10 * Minute

// Recent is what was spent in the last ten minutes, where a quota limits that: a sliding log. A
// call counts as of its admission, or of its arrival where that is told.
type Recent struct {
	paid  ring.Queue[payment] // by the instants, each once
	gone  money.Amount        // what those paid that have left the queue
	limit money.Amount
	begun int64 // calls that were charged until then have paid nothing
}

// payment is what was paid at an instant.
type payment struct {
	wall int64        // when that was: files have it, whatever the clock is set to later
	sum  money.Amount // what was paid until then, this included
}

// window returns how long a payment counts for a caller with a span, of whose margin at most a
// minute is heeded.
func window(span int64) int64 { return min(recently-Minute+span, state.PaymentsLast) }

// before returns what the first i payments came to, and those that have left.
func (w *Recent) before(i int) money.Amount {
	if i == 0 {
		return w.gone
	}
	return w.paid.Value(i - 1).sum
}

// from returns what was paid from the i-th payment on.
func (w *Recent) from(i int) money.Amount { return w.before(w.paid.Len()) - w.before(i) }

// since returns what was paid from a cut on.
func (w *Recent) since(cut int64) money.Amount { return w.from(w.paid.Before(cut)) }

// leaves returns the instant of the payment which must leave until no more than that is left.
func (w *Recent) leaves(left money.Amount) int64 {
	return w.paid.When(sort.Search(w.paid.Len()-1, func(i int) bool { return w.from(i+1) <= left }))
}

// Used returns what was spent at a moment, for a caller with a span, and the time in UnixNano at
// which the first of it leaves; 0 for none.
func (w *Recent) Used(span int64, now Now) (spent money.Amount, until int64) {
	if w == nil {
		return 0, 0
	}
	if spent = w.since(now.Instant - window(span)); spent > 0 {
		until = now.WallAt(w.leaves(spent-1) + window(span) + 1)
	}
	return spent, until
}

// Deny denies what may cost more than the last ten minutes leave. What has no price Spend denies.
func (w *Recent) Deny(ask Ask, now Now) (d Denial) {
	spent, left := w.since(now.Instant-window(ask.Span)), w.limit.Sub(ask.Money)
	if !ask.Priced || spent <= left {
		return d
	}
	r := Refusal{Rank: BySpend, Code: CodeSpend, Reason: "the spend of ten minutes is used up"}
	if left < 0 {
		r.TooMuch, left = "the request alone may cost more than the spend of ten minutes", 0
	}
	if spent > left {
		r.Wait = w.leaves(left) + window(ask.Span) + 1 - now.Instant
	}
	d.Add(&r)
	return d
}

// Charge adds the most that a call can cost.
func (w *Recent) Charge(b Bill, now Now) (eased bool) {
	w.pay(b.At, b.Most, now)
	return false
}

// End replaces the charge of a call by what it did cost. What is above one that no longer counts
// counts as of now.
func (w *Recent) End(b Bill, how How, now Now) {
	switch more := b.Cost.Sub(b.Most); {
	case how == Expired || how == Lost:
	case more < 0:
		w.giveBack(b.At, -more)
	case now.Instant-b.At <= recently:
		w.pay(b.At, more, now)
	default:
		w.pay(now.Instant, more, now)
	}
	if b.InFlight == 0 {
		w.begun = math.MinInt64
	}
}

// pay adds a payment, and drops those that count for nobody any more.
func (w *Recent) pay(at int64, spent money.Amount, now Now) {
	gone := w.paid.Before(now.Instant - state.PaymentsLast)
	w.gone = w.before(gone)
	w.paid.Drop(gone)
	if spent = min(spent, math.MaxInt64-w.from(0)); spent <= 0 || at < now.Instant-state.PaymentsLast {
		return
	}
	i := w.paid.Before(at)
	if i == w.paid.Len() || w.paid.When(i) != at {
		w.paid.Insert(at, payment{now.WallAt(at), w.before(i)})
	}
	w.add(i, spent)
}

// add adds to the i-th payment, at the cost of those behind it.
func (w *Recent) add(i int, more money.Amount) {
	for ; i < w.paid.Len(); i++ {
		w.paid.Edit(i).sum += more
	}
}

// giveBack takes back a part of what was paid at an instant.
func (w *Recent) giveBack(at int64, less money.Amount) {
	if i := w.paid.Before(at); at > w.begun && i < w.paid.Len() && w.paid.When(i) == at {
		w.add(i, -min(less, w.before(i+1)-w.before(i)))
	}
}

// move has what a call was charged count as of a later instant.
func (w *Recent) move(from, to int64, most money.Amount, now Now) {
	if w != nil {
		w.giveBack(from, most)
		w.pay(to, most, now)
	}
}

// MayPass reports whether the limit may let an ask pass in time.
func (w *Recent) MayPass(h Hope, now Now) bool {
	spent := w.since(now.Instant + min(h.Left, state.PaymentsLast) - window(h.Span))
	return spent.Sub(h.Open.Money) <= w.limit.Sub(h.Money)
}

// Lasts returns how long the last payment counts, whatever the margin.
func (w *Recent) Lasts(now Now) int64 {
	if n := w.paid.Len(); n > 0 {
		return max(w.paid.When(n-1)+state.PaymentsLast-now.Instant, 0)
	}
	return 0
}

// Forget does nothing: what was spent counts until its ten minutes end.
func (w *Recent) Forget(bool, Now) {}

// payments returns what was spent as stores have it. What lies in the future, because the wall
// clock was set back, takes its present time.
func (w *Recent) payments(now Now) state.Payments {
	if w == nil {
		return ""
	}
	all := make([]state.Payment, w.paid.Len())
	for i := range all {
		p := w.paid.Edit(i)
		if p.wall > now.Wall {
			p.wall = now.WallAt(w.paid.When(i))
		}
		all[i] = state.Payment{At: p.wall, Spent: p.sum - w.before(i)}
	}
	return state.PaymentsOf(all)
}

// load makes the payments those of a store. Those that are there keep their instants, by which open
// calls know them. One of the future counts as of now.
func (w *Recent) load(is state.Payments, now Now) {
	if w == nil {
		return
	}
	known := make(map[int64]int64, w.paid.Len()) // instants, by the time
	for i, p := range w.paid.Values() {
		known[p.wall] = w.paid.When(i)
	}
	w.paid, w.gone = ring.Queue[payment]{}, 0
	for _, p := range is.All() {
		at, has := known[p.At]
		if wall := min(max(p.At, now.Wall-2*recently), now.Wall); !has {
			at, p.At = now.Instant-now.Wall+wall, wall
		}
		w.pay(at, p.Spent, Now{Instant: at, Wall: p.At})
	}
}

func bindRecent(a *Account, _ *Zone, now Now) {
	isNew := a.Recent == nil
	if w := askFor(a, &a.Recent, a.Quota.MaxSpendPerTenMinutes != 0); w != nil {
		w.limit = a.Quota.MaxSpendPerTenMinutes
		if isNew {
			w.begun = a.openSince(now.Instant)
		}
	}
}

func readRecent(a *Account, r *wire.Reader, as *As, has bool) {
	w := askFor(a, &a.Recent, a.Quota.MaxSpendPerTenMinutes != 0)
	if has != (w != nil) {
		r.Fail("payments that the quota does not ask for, or none")
	} else if has {
		w.limit, w.begun = a.Quota.MaxSpendPerTenMinutes, r.Int()
		at, sum := int64(math.MinInt64), money.Amount(0)
		for n := r.Count(math.MaxInt, 2); n > 0 && r.Err() == nil; n-- {
			at = r.Within(at, as.Last.Instant)
			sum += money.Amount(r.UpTo(uint64(math.MaxInt64 - sum)))
			w.paid.Push(at, payment{as.Last.WallAt(at), sum})
			at++
		}
	}
}

// AppendImage appends the whole state of the payments.
func (w *Recent) AppendImage(to []byte) []byte {
	to = wire.AppendUint(wire.AppendInt(to, w.begun), uint64(w.paid.Len()))
	for i := range w.paid.Len() {
		to = wire.AppendUint(wire.AppendInt(to, w.paid.When(i)), uint64(w.from(i)-w.from(i+1)))
	}
	return to
}
