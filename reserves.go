package ratelimit

import (
	"cmp"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/classuse"
	"dappco.re/go/core/go-ratelimit/internal/external"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// reserve is the share of each limit that is kept for a class: Class.ReservePercent.
type reserve struct {
	class   string
	percent int
}

// reservesOf returns the reserves of classes; nil for none.
func reservesOf(classes map[string]Class) (rs []reserve) {
	for name, c := range classes {
		if c.ReservePercent > 0 {
			rs = append(rs, reserve{name, c.ReservePercent})
		}
	}
	slices.SortFunc(rs, func(a, b reserve) int { return cmp.Compare(a.class, b.class) })
	return rs
}

// hasReserve reports whether a class has a reserve, so that others may not hold it up.
func (rl *RateLimiter) hasReserve(class string) bool {
	for i := range rl.reserves {
		if rl.reserves[i].class == class {
			return true
		}
	}
	return false
}

// use returns what a class with a reserve uses of the model; nil for another class.
func (g *slots) use(class string) *classuse.Use {
	if g == nil || !g.home.hasReserve(class) {
		return nil
	}
	return g.uses.Need(class)
}

// keepLocked has a view keep what is reserved for other classes than that which asks, and notes
// that this one asks. What is kept counts as used by others, until the other class has not asked
// for a minute. It is never more than leaves room for the call beside what the classes with a
// reserve use: a large call would else wait for as long as those ask.
func (r *view) keepLocked(rl *RateLimiter, q *ModelQuota, c *cost, class string, asks bool) {
	r.class = class
	if u := r.slots.use(class); u != nil && asks {
		u.See(r.instant)
	}
	if r.slots == nil {
		return
	}
	var k keeping
	var head *waiter
	if r.slots.hasLine() {
		head = r.slots.headOf(rl.fairClassRLocked(class).Name)
	}
	patience := head.patienceLocked(r)
	for _, of := range rl.reserves {
		if of.class == class {
			continue
		}
		u := r.slots.uses.Of(of.class)
		if u == nil {
			continue
		}
		seenAt := u.SeenAt()
		if r.slots.line.InClass(of.class) > 0 {
			seenAt = r.instant
		}
		if left := seenAt + r.span + 1 - r.instant; seenAt != 0 && left > 0 {
			k.keep(r, q, c, u, of.percent, left, patience)
		}
	}
	if k.beside != nil {
		r.keeps, r.reported, r.external = true, r.external, k.beside
	}
	if head != nil && head.keptAt == 0 && asks && (k.beside != nil || r.slotsKept > 0) {
		head.keptAt = r.instant
	}
}

// headOf returns the waiter that is the next of its class; nil for none.
func (g *slots) headOf(class string) *waiter {
	if e := g.line.First(class); e != nil {
		return e.Value
	}
	return nil
}

// patienceLocked returns how long reserves of the minute and of the calls in flight still keep out
// a waiter that is the next of its class, and those behind it: for a minute since they began to. So
// a class that waits has a call served at times, even where others always use what they reserve.
func (w *waiter) patienceLocked(r *view) int64 {
	if w == nil || w.keptAt == 0 {
		return r.span + 1
	}
	return w.keptAt + r.span + 1 - r.instant
}

// keeping is what is kept of the limits of a model for classes with a reserve.
type keeping struct {
	beside *external.Usage       // what others use, with what is kept of the minute and the day; nil for none
	most   [state.Dimensions]int // what those classes use, and what is kept for them
}

// keep keeps the reserve of a class, for as long as it is left to it.
func (k *keeping) keep(r *view, q *ModelQuota, c *cost, u *classuse.Use, percent int, left, patience int64) {
	for d := range state.Dimensions {
		limit := *q.limit(d)
		if limit <= 0 {
			continue
		}
		used := u.Of(d, r.instant-r.span, r.period.Begin)
		k.most[d] = tokens.AddSaturated(k.most[d], used)
		kept := min(part(limit, percent)-used, limit-min(c.Of(d), limit)-k.most[d])
		lasts := left
		if state.Limits[d].Window != state.Day {
			lasts = min(left, patience)
		}
		if kept <= 0 || lasts <= 0 {
			continue
		}
		k.most[d] += kept
		if d == state.InFlight {
			r.slotsKept += kept
			r.keptFor = max(r.keptFor, time.Duration(lasts))
			continue
		}
		if k.beside == nil {
			k.beside = new(external.Usage)
			if r.external != nil {
				*k.beside = *r.external
			}
		}
		p := &k.beside[d]
		p.Amount = tokens.AddSaturated(p.Amount, kept)
		until := r.instant + lasts
		if state.Limits[d].Window == state.Day {
			until = r.wall + lasts
		}
		p.Until = max(p.Until, until)
	}
}

// seenLocked notes that a class has asked for the model until now, as one that waits does.
func (g *slots) seenLocked(class string) {
	if u := g.use(class); u != nil {
		u.See(g.home.clock.Sync())
	}
}

// keeps reports whether a reserve of another class is kept from one of the requests.
func (b *batch) keeps() bool {
	return slices.ContainsFunc(b.costs, func(m modelCost) bool { return m.view.keeps || m.view.slotsKept > 0 })
}

// part returns a percentage of a limit, rounded down.
func part(limit, percent int) int { return limit/100*percent + limit%100*percent/100 }

// chargeClassLocked counts the charge of a reservation to its class, if that has a reserve.
func (r *Reservation) chargeClassLocked(class string) *classuse.Charge {
	return r.slots().use(class).Charge(r.instant, r.window.period.Begin, r.estimate)
}

// countLocked is chargeClassLocked for a charge that ends with the reservation.
func (r *Reservation) countLocked(class string) {
	if c := r.chargeClassLocked(class); c != nil {
		r.more().share = c
	}
}

// classLocked counts a reservation to the class of its call.
func (r *Reservation) classLocked(class string) {
	if r.home.markLocked(r, class) && r.home.reserves != nil {
		r.countLocked(class)
	}
}

// share returns what the reservation counts to its class; nil where that has no reserve.
func (r *Reservation) share() *classuse.Charge {
	if r.extra == nil {
		return nil
	}
	return r.extra.share
}

// reservedClassRLocked returns a class if it has a reserve; else nothing.
func (rl *RateLimiter) reservedClassRLocked(class string) string {
	if class != "" && rl.hasReserve(class) {
		return class
	}
	return ""
}
