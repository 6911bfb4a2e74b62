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

// needsPlace reports whether a model needs a place for its first charge.
func (e *Engine) needsPlace(t *Target) bool {
	return !t.Account.IsShown() && !t.Account.Listed
}

// freePlaces returns how many of n places there are, for models beside those of a batch.
func (e *Engine) freePlaces(n int, beside []*account.Account, now account.Now) int {
	free := max(e.places.most-e.places.len, 0)
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
	if e.places.len < e.places.most {
		return true
	}
	looks := 0
	for a := e.places.first; a != nil && looks < mostLooks; a = a.Place.Next {
		if looks++; e.isIdle(a, now) {
			e.hide(a, true)
			e.drop(a, now)
			return true
		}
	}
	return false
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
	requests, tokens, end := a.DayUsed(now.Wall)
	if a.Quota.MaxRPD != 0 && requests != 0 || a.Quota.MaxTPD != 0 && tokens != 0 {
		wait = max(wait, end-now.Wall)
	}
	return max(wait, a.Lasts(now))
}
