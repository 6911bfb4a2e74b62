package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
)

// places bounds the models with usage that have no quota of their own, by Config.MaxModels: a new
// one takes the place of the one that was used least recently, if that is idle.
type places struct {
	most        int
	len         int
	first, last *account.Account // by their last use
}

// mostLooks bounds how many models are looked at for one that is idle. The one that was used least
// recently nearly always is; limits of the day keep some longer.
const mostLooks = 32

// use notes the use of a model.
func (p *places) use(a *account.Account) {
	if p.last == a {
		return
	}
	if p.holds(a) {
		p.remove(a)
	}
	p.len++
	if a.Place.Prev = p.last; p.last != nil {
		p.last.Place.Next = a
	} else {
		p.first = a
	}
	p.last = a
}

// areFullFor reports whether a model without a quota of its own may have to find a place.
func (p *places) areFullFor(a *account.Account) bool {
	return p.len > p.most || p.len == p.most && !a.IsShown()
}

func (p *places) holds(a *account.Account) bool { return a.Place.Prev != nil || p.first == a }

// remove takes a model out, if it is there.
func (p *places) remove(a *account.Account) {
	if !p.holds(a) {
		return
	}
	p.len--
	if a.Place.Prev != nil {
		a.Place.Prev.Place.Next = a.Place.Next
	} else {
		p.first = a.Place.Next
	}
	if a.Place.Next != nil {
		a.Place.Next.Place.Prev = a.Place.Prev
	} else {
		p.last = a.Place.Prev
	}
	a.Place.Prev, a.Place.Next = nil, nil
}

// needsPlace reports whether a model has to find a place for its next charge: also one that has a
// place of which nothing is to be kept. Where more models have lost their quotas than there were
// places, an idle one does not keep its own either.
func (e *Engine) needsPlace(a *account.Account, now account.Now) bool {
	return !a.Listed && (!a.IsShown() || e.isEmpty(a, now) || e.places.len > e.places.most && e.isIdle(a, now) && e.areTooMany(now))
}

// areTooMany reports whether there are more models of which something is to be kept than places.
func (e *Engine) areTooMany(now account.Now) bool {
	n := e.places.len
	for a := e.places.first; a != nil && n > e.places.most; a = a.Place.Next {
		if e.isEmpty(a, now) && !a.Found.HasBegun() {
			n--
		}
	}
	return n > e.places.most
}

// isEmpty reports whether nothing of a model is to be kept. One with a quota of its own takes no
// place, so it keeps none for its calls, nor for a class that has asked.
func (e *Engine) isEmpty(a *account.Account, now account.Now) bool {
	return (a.Listed || !keepsPlace(a) && !e.isAsked(a, now)) && a.IsIdle(now, e.span) && !a.Owes(now.Instant)
}

// isAsked reports whether room is kept of a model for a class that has asked for it.
func (e *Engine) isAsked(a *account.Account, now account.Now) bool {
	return a.IsAsked(now.Instant - e.span)
}

// freePlaces returns how many of n places there are, for models beside those of a batch, of which
// some give back the places that they have. It is less than 0 where more models have lost their
// quotas than there were places.
func (e *Engine) freePlaces(n, back int, beside []*account.Account, now account.Now) int {
	free := e.places.most - e.places.len + back
	looks := 0
	for a := e.places.first; a != nil && free < n && looks < mostLooks; a = a.Place.Next {
		looks++
		if e.isIdle(a, now) && !contains(beside, a) {
			free++
		}
	}
	return min(free, n)
}

func contains(all []*account.Account, a *account.Account) bool {
	for _, other := range all {
		if other == a {
			return true
		}
	}
	return false
}

// makePlace makes a place for one model. It reports whether there is one.
func (e *Engine) makePlace(now account.Now) bool {
	e.evict(e.places.most-1, now)
	return e.places.len < e.places.most
}

// evict forgets idle models until there are no more than so many: those of which nothing is to be
// forgotten, and then those that were used least recently.
func (e *Engine) evict(most int, now account.Now) {
	e.evictIf(most, now, func(a *account.Account) bool { return e.isEmpty(a, now) && !a.Found.HasBegun() })
	e.evictIf(most, now, func(a *account.Account) bool { return e.isIdle(a, now) })
}

func (e *Engine) evictIf(most int, now account.Now, may func(*account.Account) bool) {
	looks := 0
	for a := e.places.first; a != nil && e.places.len > most && looks < mostLooks; looks++ {
		next := a.Place.Next
		if may(a) {
			e.hide(a, true)
			e.drop(a, now)
		}
		a = next
	}
}

// keepsPlace reports whether a model keeps its place whatever of its usage expires: somebody waits
// for it, or a call of it is in flight where these are limited.
func keepsPlace(a *account.Account) bool { return a.Waiting > 0 || a.InFlight > 0 && a.LimitsSlots() }

// isIdle reports whether a model does not need its usage: nothing of it counts to the minute, to a
// limit of the day or to one that few have, nobody waits for it, and no call of it is in flight
// where these are limited.
func (e *Engine) isIdle(a *account.Account, now account.Now) bool {
	if keepsPlace(a) || !a.Window.IsEmpty(now.Instant-e.span) {
		return false
	}
	requests, tokens, _ := a.DayUsed(now.Wall)
	return (a.Quota.MaxRPD == 0 || requests == 0) && (a.Quota.MaxTPD == 0 || tokens == 0) && a.Lasts(now) == 0
}

// placeIn returns how long until a place opens for a model beside those of a batch: until the
// first of the least recently used models is idle. A batch that needs several places asks again
// then. 0 means that no time is known, because a call has to end first.
func (e *Engine) placeIn(beside []*account.Account, now account.Now) (soonest int64) {
	looks := 0
	for a := e.places.first; a != nil && looks < mostLooks; a = a.Place.Next {
		looks++
		if in := e.idleIn(a, now); in > 0 && (soonest == 0 || in < soonest) && !contains(beside, a) {
			soonest = in
		}
	}
	return soonest
}

// idleIn returns how long it takes until a model is idle, if nobody waits for it then; 0 where it
// is, or where no time says that.
func (e *Engine) idleIn(a *account.Account, now account.Now) (wait int64) {
	if a.InFlight > 0 && a.LimitsSlots() {
		return 0
	}
	if last, ok := a.LastAt(); ok {
		wait = max(last+e.span+1-now.Instant, 0)
	}
	requests, tokens, day := a.DayUsed(now.Wall)
	if a.Quota.MaxRPD != 0 && requests != 0 || a.Quota.MaxTPD != 0 && tokens != 0 {
		wait = max(wait, day.End-now.Wall)
	}
	return max(wait, a.Lasts(now))
}
