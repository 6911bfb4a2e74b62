package account

import (
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Use is what the calls of a class with a reserve use of an account.
type Use struct {
	Meter
	Class   string
	SeenAt  int64 // the instant at which a call of the class last asked; 0 for never
	Waiting int   // calls of the class in the account's line
}

// Reserve is the share of each limit that is kept for a class, or for a process that may still use
// it. Those for processes come first.
type Reserve struct {
	Class   string
	Percent int

	Shares int   // how many processes share each limit, one of which it is kept for; 0 for a class
	Until  int64 // the instant until which it is
}

// Withholds reports whether anything is kept for processes.
func Withholds(reserves []Reserve) bool { return len(reserves) > 0 && reserves[0].Shares > 0 }

// Of returns a percentage of a limit, rounded down.
func (r Reserve) Of(limit int) int { return limit/100*r.Percent + limit%100*r.Percent/100 }

// UseOf returns what a class uses; nil for nothing.
func (a *Account) UseOf(class string) *Use {
	for _, u := range a.Uses {
		if u.Class == class {
			return u
		}
	}
	return nil
}

// NeedUse returns what a class uses, to be added to.
func (a *Account) NeedUse(class string) *Use {
	u := a.UseOf(class)
	if u == nil {
		u = &Use{Meter: newMeter(&a.Day), Class: class}
		a.Uses = append(a.Uses, u)
		a.Traits |= Reserved
	}
	return u
}

// IsAsked reports whether a class with a reserve has asked since the cut, so that room is kept for
// it.
func (a *Account) IsAsked(cut int64) bool {
	for _, u := range a.Uses {
		if u.SeenAt != 0 && u.SeenAt >= cut {
			return true
		}
	}
	return false
}

// ForgetAsks has no room be kept for the classes that have asked before an instant.
func (a *Account) ForgetAsks(before int64) {
	for _, u := range a.Uses {
		if u.SeenAt < before {
			u.SeenAt = 0
		}
	}
}

// Held is what is held back of the limits of an account: what others use, as its provider reports,
// and what is kept for classes with a reserve.
type Held struct {
	Parts    External // of the minute and the day: the sum of both
	Reported External // of that, what others use
	Slots    int      // calls in flight that are kept
	SlotsFor int64    // and how long they are, if their classes do not ask again
	Keeps    bool     // anything is kept for classes
}

// HeldFrom returns what is held back from an ask; nil for nothing. A class's reserve counts as
// used by others until the class has not asked for a minute. Reserves never take the room that
// the ask needs on top of what the reserving classes use. Otherwise a large call would wait for
// as long as those classes ask.
func (a *Account) HeldFrom(ask *Ask, reserves []Reserve, now Now) *Held {
	withholds := Withholds(reserves)
	if !withholds && (!a.Has(Reported|Reserved) || a.Has(Reserved) && a.Reports == nil && len(reserves) == 0) {
		return nil
	}
	h := new(Held)
	reported := false
	if a.Reports != nil {
		h.Reported = *a.Reports
		reported = h.Reported.Expire(now.Instant, now.Wall)
		h.Parts = h.Reported
	}
	var most [state.Dimensions]int // what the classes use, and what is kept for them
	for _, r := range reserves {
		if r.Shares > 0 {
			h.withhold(a, r, now)
			continue
		}
		u := a.UseOf(r.Class)
		if u == nil || r.Class == ask.Class {
			continue
		}
		seenAt := u.SeenAt
		if u.Waiting > 0 {
			seenAt = now.Instant
		}
		if left := seenAt + ask.Span + 1 - now.Instant; seenAt != 0 && left > 0 {
			h.keep(a, ask, u, r, left, now, &most)
		}
	}
	if !reported && !withholds && !h.Keeps && h.Slots == 0 {
		return nil
	}
	return h
}

// withhold keeps the share of a process, rounded up.
func (h *Held) withhold(a *Account, r Reserve, now Now) {
	left := r.Until - now.Instant
	if left <= 0 {
		return
	}
	for d := range state.Dimensions {
		limit := *a.Quota.Limit(d)
		if limit <= 0 {
			continue
		}
		share := limit / r.Shares
		if limit%r.Shares > 0 {
			share++
		}
		if d == state.InFlight {
			h.Slots = state.AddSaturated(h.Slots, share)
			h.SlotsFor = max(h.SlotsFor, left)
			continue
		}
		p := &h.Parts[d]
		until := r.Until
		if state.Limits[d].Window == state.Day {
			until = now.WallAt(until)
		}
		p.Amount, p.Until = state.AddSaturated(p.Amount, share), max(p.Until, until)
	}
}

// keep keeps the reserve of a class, for as long as it is left to it.
func (h *Held) keep(a *Account, ask *Ask, u *Use, r Reserve, left int64, now Now, most *[state.Dimensions]int) {
	for d := range state.Dimensions {
		limit := *a.Quota.Limit(d)
		if limit <= 0 {
			continue
		}
		used := u.Used(d, ask.Span, now)
		most[d] = state.AddSaturated(most[d], used)
		kept := min(r.Of(limit)-used, limit-min(ask.Of(d), limit)-most[d])
		lasts := left
		if state.Limits[d].Window != state.Day {
			lasts = min(left, ask.Patience)
		}
		if kept <= 0 || lasts <= 0 {
			continue
		}
		most[d] += kept
		if d == state.InFlight {
			h.Slots += kept
			h.SlotsFor = max(h.SlotsFor, lasts)
			continue
		}
		h.Keeps = true
		p := &h.Parts[d]
		p.Amount = state.AddSaturated(p.Amount, kept)
		until := now.Instant + lasts
		if state.Limits[d].Window == state.Day {
			until = now.Wall + lasts
		}
		p.Until = max(p.Until, until)
	}
}

// JoinReports adds the usage of others of a model that turned out to be the same: of each limit the
// more.
func (a *Account) JoinReports(other *External) {
	if other == nil {
		return
	}
	u := *other
	for of := range u {
		if a.Reports != nil && a.Reports[of].Amount > u[of].Amount {
			u[of] = a.Reports[of]
		}
	}
	a.Report(&u)
}

// ReportLasts returns until when something is held back that a provider reports now: an instant for
// the minute, in UnixNano for the day.
func (a *Account) ReportLasts(of state.Dimension, report *state.ReportedLimit, span int64, now Now) int64 {
	if state.Limits[of].Window != state.Day {
		return now.Instant + report.Lasts(span)
	}
	day := a.Day.Span
	if !a.Day.isUsed() { // it begins with the next call, or at midnight
		next := a.Day
		next.start(now.Wall)
		day = next.Span
	}
	return min(now.Wall+report.Lasts(fullDay), day.End)
}
