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

// use returns what a class with a reserve uses of the model; nil for another class.
func (g *slots) use(class string) *classuse.Use {
	if g == nil || !slices.ContainsFunc(g.home.reserves, func(r reserve) bool { return r.class == class }) {
		return nil
	}
	u := g.uses[class]
	if u == nil {
		u = new(classuse.Use)
		if g.uses == nil {
			g.uses = make(map[string]*classuse.Use)
		}
		g.uses[class] = u
	}
	return u
}

// keepLocked has a view keep what is reserved for other classes than that which asks, and notes that
// this one asks. What is kept counts as used by others, until the other class has not asked for a
// minute.
func (r *view) keepLocked(rl *RateLimiter, q *ModelQuota, class string, asks bool) {
	r.class = class
	if u := r.slots.use(class); u != nil && asks {
		u.See(r.instant)
	}
	if r.slots == nil {
		return
	}
	var beside external.Usage
	if r.external != nil {
		beside = *r.external
	}
	keeps := false
	for _, of := range rl.reserves {
		u := r.slots.uses[of.class]
		if of.class == class || u == nil {
			continue
		}
		seenAt := u.SeenAt()
		if r.slots.line.InClass(of.class) > 0 {
			seenAt = r.instant
		}
		left := seenAt + r.span + 1 - r.instant
		if seenAt == 0 || left <= 0 {
			continue
		}
		for d := range state.Dimensions {
			limit := *q.limit(d)
			if limit <= 0 {
				continue
			}
			kept := part(limit, of.percent) - u.Of(d, r.instant-r.span, r.period.Begin)
			switch {
			case kept <= 0:
			case d == state.InFlight:
				r.slotsKept += kept
				r.keptFor = max(r.keptFor, time.Duration(left))
			default:
				p := &beside[d]
				p.Amount = tokens.AddSaturated(p.Amount, kept)
				until := r.instant + left
				if state.Limits[d].Window == state.Day {
					until = r.wall + left
				}
				p.Until, keeps = max(p.Until, until), true
			}
		}
	}
	if keeps {
		r.keeps, r.reported, r.external = true, r.external, &beside
	}
}

// part returns a percentage of a limit, rounded down.
func part(limit, percent int) int { return limit/100*percent + limit%100*percent/100 }

// countLocked counts the charge of a reservation to its class, if that has a reserve.
func (r *Reservation) countLocked(class string) {
	if u := r.slots.use(class); u != nil {
		r.more().share, r.extra.shareOf = u.Charge(r.instant, r.window.period.Begin, r.estimate), class
	}
}

// classLocked counts a reservation to the class of its call.
func (r *Reservation) classLocked(class string) {
	if class = r.home.knownClassRLocked(class); class == "" {
		return
	}
	r.more().class = r.home.audits.class(class)
	if r.home.reserves != nil {
		r.countLocked(class)
	}
}

// countedClass returns the class to which the reservation was counted.
func (r *Reservation) countedClass() string {
	if r.extra == nil {
		return ""
	}
	return r.extra.shareOf
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
	if class != "" && slices.ContainsFunc(rl.reserves, func(r reserve) bool { return r.class == class }) {
		return class
	}
	return ""
}
