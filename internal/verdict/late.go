package verdict

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// IsHopeless reports whether items that were decided upon cannot pass by an instant even in the
// best case. Then each open call gives back its whole charge, or only its tokens if the provider
// has counted the call, and all calls in flight end in time.
func IsHopeless(items []Item, v *Verdict, deadline int64, now account.Now) bool {
	left := deadline - now.Instant
	if v.Allowed || left >= v.wait {
		return false
	}
	for i := range items {
		if !items[i].passesIn(left, now) {
			return true
		}
	}
	return false
}

// passesIn reports whether an item may pass within so many nanoseconds.
func (i *Item) passesIn(left int64, now account.Now) bool {
	a := i.Account
	if a.Has(account.Cools) && a.CoolUntil-now.Wall > left {
		return false
	}
	if a.Has(account.Unknown | account.Unlimited) {
		return true
	}
	if i.Full {
		return i.PlaceIn <= left
	}
	u := usage{Account: a, ask: &i.Ask, now: now}
	for of := range state.InFlight {
		if limit := *a.Quota.Limit(of); limit > 0 && !u.passesIn(of, limit, left) {
			return false
		}
	}
	hope := account.Hope{Ask: i.Ask, Open: a.Open, InFlight: a.InFlight, Left: left}
	for _, x := range a.Extras {
		if !x.MayPass(hope, now) {
			return false
		}
	}
	return true
}

// passesIn reports whether a limit may let an ask pass in time. What open calls hold of it may come
// back, so a bucket that holds any of it is not looked at.
func (u *usage) passesIn(of state.Dimension, limit int, left int64) bool {
	open, more := u.Open.Of(of), u.ask.Of(of)
	if open == 0 && u.PacedIn(of, more, u.now.Instant) > left {
		return false
	}
	budget := limit - more + open
	if budget < limit-more { // it overflowed
		return true
	}
	used := u.used(of)
	if u.Reports != nil {
		if p := &u.Reports[of]; p.Amount > 0 && u.partLasts(of, p.Until, left) {
			budget -= p.Amount
		}
	}
	return used <= budget || budget >= 0 && u.usedFitsIn(of, budget) <= left
}

// partLasts reports whether what is held until a time of a limit is so for so many nanoseconds.
func (u *usage) partLasts(of state.Dimension, until, left int64) bool {
	if state.Limits[of].Window == state.Day {
		return until-u.now.Wall > left
	}
	return until-u.now.Instant > left
}
