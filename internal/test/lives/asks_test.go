package lives

import (
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// reserve asks for one reservation.
func (l *life) reserve(req ratelimit.Request) bool {
	l.catchUp()
	reals := make([]*ratelimit.Reservation, len(l.houses))
	d := each(l, "Reserve", func(h *house, i int) (d ratelimit.Decision) {
		if l.fair {
			var rs ratelimit.Reservations
			if rs, d = h.rl.ReserveContext(l.ctx.Context(), req); rs != nil {
				reals[i] = rs[0]
			}
			return d
		}
		reals[i], d = h.rl.Reserve(req.Model, req.PromptTokens, req.OutputTokens)
		return d
	})
	l.note("reserve %s: %s %q %v", render(req), d.Code, d.Pool, d.RetryAfter)
	l.check(d, req)
	for i, h := range l.houses {
		if (reals[i] != nil) != d.Allowed {
			l.fail("%s: Reserve returns %v with %+v", h.kind, reals[i], d)
		}
	}
	if d.Allowed {
		l.book(reals, req)
	} else {
		l.expect(ratelimit.EventRefused, req, "")
	}
	return d.Allowed
}

// waitOut asks for a reservation, and if it is denied again when Decision.RetryAfter says that it
// passes, and a nanosecond before. This holds the exact wait against the limits of which the oracle
// knows nothing, too.
func (l *life) waitOut() {
	l.catchUp()
	req := l.drawRequest()
	l.note("wait out %s", render(req))
	d := each(l, "DecideRequest", func(h *house, _ int) ratelimit.Decision { return h.rl.DecideRequest(req) })
	wait := d.RetryAfter
	if wait <= 1 || wait > 26*time.Hour || l.crowd || len(l.waits) > 0 || slices.ContainsFunc(l.calls, l.expiresIn(wait)) {
		return
	}
	for last, d := range []time.Duration{wait - 1, 1} {
		l.rest(d)
		is := each(l, "DecideRequest", func(h *house, _ int) ratelimit.Decision { return h.rl.DecideRequest(req) })
		if is.Code == ratelimit.DecisionInFlightLimit && is.RetryAfter == 0 {
			return // no time says when a call ends; a cooldown is to be waited for all the same
		}
		if passes := last == 1; is.Allowed != passes {
			l.fail("%s was to pass in %v, and %v from then is %+v", render(req), wait, d-1, is)
		}
	}
	l.met["waited out"]++
}

// expiresIn returns whether a call expires within a time.
func (l *life) expiresIn(d time.Duration) func(c *call) bool {
	return func(c *call) bool {
		return l.cfg.HoldTTL > 0 && !c.settled && !c.admitted.Add(l.cfg.HoldTTL).After(l.now.Add(d))
	}
}

// reserveAll asks for several together.
func (l *life) reserveAll() {
	reqs := make([]ratelimit.Request, 1+l.random.IntN(3))
	for i := range reqs {
		reqs[i] = l.drawRequest()
	}
	l.reserveThese(reqs)
}

func (l *life) reserveThese(reqs []ratelimit.Request) {
	l.catchUp()
	made := make([]ratelimit.Reservations, len(l.houses))
	d := each(l, "ReserveAll", func(h *house, i int) (d ratelimit.Decision) {
		made[i], d = h.rl.ReserveAll(reqs...)
		return d
	})
	l.note("reserve all %s: %s %q %v", render(reqs), d.Code, d.Pool, d.RetryAfter)
	l.check(d, reqs...)
	if !d.Allowed {
		l.expectRefused(d, reqs)
		return
	}
	for n, req := range reqs {
		reals := make([]*ratelimit.Reservation, len(l.houses))
		for i := range l.houses {
			reals[i] = made[i][n]
		}
		l.book(reals, req)
	}
}

// reserveAny asks for the first that fits.
func (l *life) reserveAny() {
	l.catchUp()
	reqs := l.drawCandidates()
	reals := make([]*ratelimit.Reservation, len(l.houses))
	d := each(l, "ReserveAny", func(h *house, i int) (d ratelimit.Decision) {
		reals[i], d = h.rl.ReserveAny(reqs...)
		return d
	})
	l.note("reserve any %s: %s %q %v", render(reqs), d.Code, d.Pool, d.RetryAfter)
	seen, queues := l.sees(reqs...), len(l.waits) > 0
	for _, req := range reqs {
		switch {
		case d.Allowed && reals[0].Model() == req.Model:
			l.book(reals, req)
			return
		case seen && !queues && l.permits(req.Model) && together(l.parts([]ratelimit.Request{req})).allowed:
			l.fail("ReserveAny says %+v, the oracle takes %+v", d, req)
		}
	}
	if d.Allowed {
		l.fail("ReserveAny takes %q, which is none of %+v", reals[0].Model(), reqs)
	}
	l.expectRefused(d, reqs)
}

// permits reports whether Config.Unknown lets a call of a model pass: it has a quota, or a pool
// names it or covers it by another pattern than "*".
func (l *life) permits(model string) bool {
	if l.cfg.Unknown == ratelimit.UnknownAllow || l.modelOf(model).known {
		return true
	}
	for _, members := range l.members {
		for _, m := range members {
			if m != "*" && (matches(m, model) || matches(m, l.counted(model))) {
				return true
			}
		}
	}
	return false
}

// check holds a decision against the books.
func (l *life) check(d ratelimit.Decision, reqs ...ratelimit.Request) {
	if d.Reason == "" {
		l.fail("no reason: %+v", d)
	}
	if len(reqs) == 1 && !l.isSilent() && !(l.crowd && l.modelOf(reqs[0].Model).unlisted) {
		if diff := l.modelOf(reqs[0].Model).difference(d.Stats, l.now); diff != "" {
			l.fail("the decision on %s %s", render(reqs), diff)
		}
	}
	l.met[string(d.Code)]++
	if !l.sees(reqs...) {
		return
	}
	parts := l.parts(reqs)
	l.met["seen"]++
	all := together(parts)
	tell := func(what string) {
		for _, p := range parts {
			l.note("%s asks %+v of %s, used %v: %+v", p.model, p.demand, render(p.account.stats(l.now)), p.account.usedOf(l.now), p.verdict)
		}
		l.fail("%s: %+v of %s", what, d, render(reqs))
	}
	if d.Code == ratelimit.DecisionQueued {
		if len(l.waits) == 0 {
			tell("nobody waits")
		}
		if d.Allowed || d.Never || all.never {
			tell("queued, and yet")
		}
		return
	}
	if forbidden := slices.ContainsFunc(reqs, func(r ratelimit.Request) bool { return !l.permits(r.Model) }); forbidden {
		if d.Allowed || !d.Never {
			tell("a model is unknown")
		}
		return
	}
	if d.Allowed != all.allowed || d.Never != all.never {
		tell("the oracle says otherwise")
	}
	if d.RetryAfter != all.retry {
		tell("the oracle says in " + all.retry.String())
	}
	if all.allowed {
		if d.Pool != "" || len(parts) == 1 && d.Code != parts[0].verdict.code {
			tell("allowed, but not so")
		}
		return
	}
	if all.retry > 0 {
		l.last, l.retryAt = reqs, l.now.Add(all.retry)
	}
	denier := slices.IndexFunc(parts, func(p *part) bool {
		name := ""
		if p.account.pool {
			name = p.account.name
		}
		of := p.model == d.Model || d.Pool != "" && slices.Contains(l.poolsOf(d.Model), p.account)
		return !p.verdict.allowed && name == d.Pool && of && p.verdict.code == d.Code
	})
	if denier < 0 {
		tell("this one does not deny, or not so")
	}
	if len(reqs) == 1 && !all.never && denier != slices.IndexFunc(parts, func(p *part) bool { return !p.verdict.allowed }) {
		tell("another one denies first")
	}
}

// decide asks what a request would get.
func (l *life) decide() {
	l.catchUp()
	req := l.drawRequest()
	l.check(each(l, "DecideRequest", func(h *house, _ int) ratelimit.Decision { return h.rl.DecideRequest(req) }), req)
	req.OutputTokens, req.Class, req.Flow = 0, "", ""
	d := each(l, "Decide", func(h *house, _ int) ratelimit.Decision { return h.rl.Decide(req.Model, req.PromptTokens) })
	l.note("decide %s: %s %q %v", render(req), d.Code, d.Pool, d.RetryAfter)
	l.check(d, req)
	if can := each(l, "CanSend", func(h *house, _ int) bool { return h.rl.CanSend(req.Model, req.PromptTokens) }); can != d.Allowed {
		l.fail("CanSend says %t, Decide %+v", can, d)
	}
}
