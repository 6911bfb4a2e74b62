package replica

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// reasonAlone is that of a denial by the share of a process.
const reasonAlone = "this process has used its share of the quota while the store is away"

// judge denies what is beyond the share of a process, of a quota that the log does not know yet
// where there is one.
func (l *alone) judge(v *verdict.Verdict, i *verdict.Item, at int, counted string, process int64, now account.Now) {
	a, name := i.Account, cmp.Or(i.Account.Name, counted)
	if q, is := l.quotas[name]; is {
		said := *a
		said.Quota = q
		a = &said
	}
	if c, is := l.cools[name]; is && c.Until > now.Wall {
		*v = verdict.Verdict{
			Code: verdict.Cooldown, Reason: state.CooldownReason(c.Cause), Cause: c.Cause, Item: at, Retry: time.Duration(c.Until - now.Wall),
		}
		return
	}
	for d := range state.Dimensions {
		limit, more := *a.Quota.Limit(d), i.Ask.Of(d)
		if limit <= 0 {
			continue
		}
		wait, fits := int64(0), false
		if d == state.InFlight {
			fits = l.slotsFit(name, process, l.used(d, name, i.Ask.Span, a, now)+more, limit)
		} else if wait = l.fitsIn(d, name, &i.Ask, a, now); wait == 0 {
			wait = l.pacedIn(d, name, more, a, now)
			fits = wait <= 0
		}
		if !fits {
			*v = verdict.Verdict{Code: state.Limits[d].Code, Reason: reasonAlone, Item: at, Retry: time.Duration(max(wait, 0))}
			return
		}
	}
	if code, wait := l.beyondFound(name, i.Ask.Requests, process, a, now); code != "" {
		*v = verdict.Verdict{Code: code, Reason: reasonAlone, Item: at, Retry: time.Duration(wait)}
		return
	}
	if d := l.beyondExtras(i, name, now); !d.IsNone() {
		*v = verdict.Verdict{OverBudget: d.OverBudget(), Code: d.First().Code, Reason: reasonAlone, Item: at}
		if !v.OverBudget { // the rest of a budget may be there again as soon as the store is
			v.Retry = time.Duration(d.Wait())
		}
	}
}

// fitsIn returns how long it takes until more of a dimension fits into the share: 0 where it does
// now, and below 0 where it never does.
func (l *alone) fitsIn(d state.Dimension, name string, ask *account.Ask, a *account.Account, now account.Now) int64 {
	limit, more := *a.Quota.Limit(d), ask.Of(d)
	fits := func(wait int64) bool {
		at := account.Now{Instant: now.Instant + wait, Wall: now.Wall + wait}
		left := limit - a.Used(d, ask.Span, at)
		return left >= 0 && l.used(d, name, ask.Span, a, at)+more <= left/l.shares
	}
	if fits(0) {
		return 0
	}
	longest := ask.Span + 1
	if state.Limits[d].Window == state.Day {
		if _, _, day := a.DayUsed(now.Wall); day.End > now.Wall {
			longest = day.End - now.Wall
		}
	}
	if !fits(longest) {
		return -1
	}
	never, ever := int64(0), longest
	for never+1 < ever { // an int of sort.Search may have 32 bits
		if middle := never + (ever-never)/2; fits(middle) {
			ever = middle
		} else {
			never = middle
		}
	}
	return ever
}

// pacedIn returns how long the share of a burst keeps more of a limit of the minute from starting;
// zero or less where it does not. Each charge counts as often as there are shares.
func (l *alone) pacedIn(d state.Dimension, name string, more int, a *account.Account, now account.Now) int64 {
	if !a.Has(account.Paces) || state.Limits[d].Window != state.Minute {
		return 0
	}
	limit, depth := *a.Quota.Limit(d), int64(a.Quota.Burst)
	empty := a.PaceEmpty(d)
	for _, c := range l.charges.drawnFrom(name) {
		if n := c.of(d); n > 0 {
			empty = min(max(empty, c.at)+drains(n, l.shares, limit), c.at+depth)
		}
	}
	return empty + drains(more, l.shares, limit) - depth - now.Instant
}

// beyondFound returns the code of a limit that was found whose share is used up, and how long it
// is: a rate is divided, and so are calls in flight.
func (l *alone) beyondFound(name string, more int, process int64, a *account.Account, now account.Now) (code string, wait int64) {
	if a.Found == nil {
		return "", 0
	}
	rpm, slots := a.Found.View().Found(now.Instant)
	if slots > 0 && !l.slotsFit(name, process, l.used(state.InFlight, name, 0, a, now)+more, slots) {
		return state.Limits[state.InFlight].Code, 0
	}
	if rpm <= 0 {
		return "", 0
	}
	opens := int64(math.MinInt64)
	for _, c := range l.charges.drawnFrom(name) {
		if n := c.of(state.RPM); n > 0 {
			opens = max(opens, c.at) + drains(n, l.shares, rpm)
		}
	}
	if opens > now.Instant {
		return state.Limits[state.RPM].Code, opens - now.Instant
	}
	return "", 0
}

// drains is how long it takes until n of a limit of a minute have drained, as often as there are
// shares: a minute at most.
func drains(n, shares, limit int) int64 {
	high, product := bits.Mul64(uint64(max(n, 0)), uint64(shares))
	if high > 0 || product >= uint64(limit) {
		return account.Minute
	}
	high, low := bits.Mul64(product, uint64(account.Minute))
	low, carry := bits.Add64(low, uint64(limit-1), 0)
	ns, _ := bits.Div64(high+carry, low, uint64(limit))
	return int64(ns)
}

// beyondExtras returns the denial of the limits that few accounts have, where what the process has
// used and would use does not fit as often as there are shares.
func (l *alone) beyondExtras(i *verdict.Item, name string, now account.Now) (d account.Denial) {
	if len(i.Account.Extras) == 0 {
		return d
	}
	sum, ask := i.Ask.Cost, i.Ask
	if drawn := l.charges.from[name]; drawn != nil {
		sum.Count, sum.Money = sum.Plus(drawn.tokens), sum.Money.Add(drawn.money)
	}
	ask.Count, ask.Money = state.Count{}, 0
	for range l.shares {
		ask.Count, ask.Money = ask.Plus(sum.Count), ask.Money.Add(sum.Money)
	}
	for _, x := range i.Account.Extras {
		d.Merge(x.Deny(ask, now))
	}
	return d
}

// slotsFit reports whether the process may hold so many slots beside those that it held.
func (l *alone) slotsFit(name string, process int64, more, limit int) bool {
	share := limit / l.shares
	held := l.held[name]
	others, counted := 0, 0
	for p, n := range held {
		if p != process {
			others += max(n, share)
			counted++
		}
	}
	others += max(l.shares-1-counted, 0) * share
	own := held[process] - l.freed[name] + more
	return own <= min(share, limit-others)
}

// used returns what the process has used since it is cut off.
func (l *alone) used(d state.Dimension, name string, span int64, a *account.Account, now account.Now) (sum int) {
	drawn := l.charges.from[name]
	switch {
	case drawn == nil:
		return 0
	case state.Limits[d].Window == state.Settled:
		return drawn.open
	}
	for _, c := range slices.Backward(drawn.charges) {
		switch state.Limits[d].Window {
		case state.Minute:
			if c.at < now.Instant-span {
				return sum
			}
		case state.Day:
			if _, _, day := a.DayUsed(c.wall); day.End <= now.Wall && day.End != 0 {
				continue
			}
		}
		sum += c.of(d)
	}
	return sum
}
