package account

import (
	"maps"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

const (
	recently = 10 * Minute
	kept     = 2 * recently // payments, for those that count them with a margin
)

// Recent is what was spent in the last ten minutes, where a quota limits that: a sliding log. A
// call counts as of its admission, or of its arrival where that is told.
type Recent struct {
	paid  ring.Queue[money.Amount] // by the instants, each once
	total money.Amount             // of all that is there
	limit money.Amount
	begun int64 // calls that were charged until then have paid nothing
}

// since returns what was spent from a cut on, and the place of the first payment of that.
func (w *Recent) since(cut int64) (spent money.Amount, first int) {
	first, spent = w.paid.Before(cut), w.total
	for _, gone := range w.paid.Values()[:first] {
		spent -= gone
	}
	return spent, first
}

// Used returns what was spent at a moment, for a caller with a span, and the time in UnixNano at
// which the first of it leaves; 0 for none.
func (w *Recent) Used(span int64, now Now) (spent money.Amount, until int64) {
	if w == nil {
		return 0, 0
	}
	spent, first := w.since(now.Instant - span - recently + Minute)
	if first < w.paid.Len() {
		until = now.WallAt(w.paid.When(first) + span + recently - Minute + 1)
	}
	return spent, until
}

// Deny denies what may cost more than the last ten minutes leave. What has no price Spend denies.
func (w *Recent) Deny(ask Ask, now Now) (d Denial) {
	span, left := ask.Span+recently-Minute, w.limit.Sub(ask.Money)
	spent, first := w.since(now.Instant - span)
	if !ask.Priced || spent <= left {
		return d
	}
	r := Refusal{Rank: BySpend, Code: CodeSpend, Reason: "the spend of ten minutes is used up"}
	if left < 0 {
		r.TooMuch, left = "the request alone may cost more than the spend of ten minutes", 0
	}
	for ; spent > left; first++ {
		spent -= *w.paid.Value(first)
		r.Wait = w.paid.When(first) + span + 1 - now.Instant
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
	var gone int
	w.total, gone = w.since(now.Instant - kept)
	w.paid.Drop(gone)
	if spent = min(spent, math.MaxInt64-w.total); spent <= 0 || at < now.Instant-kept {
		return
	}
	w.total += spent
	if i := w.paid.Before(at); i < w.paid.Len() && w.paid.When(i) == at {
		*w.paid.Edit(i) += spent
	} else {
		w.paid.Insert(at, spent)
	}
}

// giveBack takes back a part of what was paid at an instant.
func (w *Recent) giveBack(at int64, less money.Amount) {
	if i := w.paid.Before(at); at > w.begun && i < w.paid.Len() && w.paid.When(i) == at {
		less = min(less, *w.paid.Value(i))
		*w.paid.Edit(i) -= less
		w.total -= less
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
	spent, _ := w.since(now.Instant + h.Left - h.Span - recently + Minute)
	return spent.Sub(h.Open.Money) <= w.limit.Sub(h.Money)
}

// Lasts returns how long the last payment counts, whatever the margin.
func (w *Recent) Lasts(now Now) int64 {
	if n := w.paid.Len(); n > 0 {
		return max(w.paid.When(n-1)+kept-now.Instant, 0)
	}
	return 0
}

// Forget does nothing: what was spent counts until its ten minutes end.
func (w *Recent) Forget(bool, Now) {}

// payments returns what was spent as stores have it.
func (w *Recent) payments(now Now) state.Payments {
	spent := make(map[int64]money.Amount)
	for i := range w.paid.Len() {
		spent[now.WallAt(w.paid.When(i))] = *w.paid.Value(i)
	}
	return state.PaymentsOf(spent)
}

// load makes the payments those of a store. One of the future counts as of now.
func (w *Recent) load(is state.Payments, now Now) {
	w.paid, w.total = ring.Queue[money.Amount]{}, 0
	spent := is.Spent()
	for _, at := range slices.Sorted(maps.Keys(spent)) {
		w.pay(now.Instant-max(now.Wall-at, 0), spent[at], now)
	}
}

func bindRecent(a *Account, _ *Zone, now Now) {
	isNew := a.Recent == nil
	w := askFor(a, &a.Recent, a.Quota.MaxSpendPerTenMinutes != 0)
	if w == nil {
		return
	}
	w.limit = a.Quota.MaxSpendPerTenMinutes
	if isNew {
		if w.begun = math.MinInt64; a.InFlight > 0 {
			w.begun = now.Instant
		}
	}
}

func readRecent(a *Account, r *wire.Reader, as *As, has bool) {
	w := askFor(a, &a.Recent, a.Quota.MaxSpendPerTenMinutes != 0)
	if has != (w != nil) {
		r.Fail("payments that the quota does not ask for, or none")
	}
	if !has || w == nil {
		return
	}
	w.limit, w.begun = a.Quota.MaxSpendPerTenMinutes, r.Int()
	n, at := r.Count(math.MaxInt, 2), int64(math.MinInt64)
	for i := 0; i < n && r.Err() == nil; i++ {
		at = r.Within(at, as.Last.Instant)
		spent := money.Amount(r.UpTo(uint64(math.MaxInt64 - w.total)))
		w.total += spent
		w.paid.Push(at, spent)
		at++
	}
}

// AppendImage appends the whole state of the payments.
func (w *Recent) AppendImage(to []byte) []byte {
	to = wire.AppendUint(wire.AppendInt(to, w.begun), uint64(w.paid.Len()))
	for i := range w.paid.Len() {
		to = wire.AppendUint(wire.AppendInt(to, w.paid.When(i)), uint64(*w.paid.Value(i)))
	}
	return to
}
