package lives

import (
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func said(l *ratelimit.ProviderLimits) [dimensions]*ratelimit.ProviderLimit {
	return [dimensions]*ratelimit.ProviderLimit{&l.RPD, &l.TPD, &l.RPM, &l.ITPM, &l.OTPM, &l.TPM}
}

// observe tells of a provider's report: mostly of one that could be.
func (l *life) observe() {
	model := pick(l.random, l.names...)
	a := l.modelOf(model)
	var limits ratelimit.ProviderLimits
	for of, limit := range limitsOf(&a.quota) {
		s := said(&limits)[of]
		if limit == 0 {
			limit = 200
		}
		*s = ratelimit.ProviderLimit{HasRemaining: l.random.IntN(3) > 0, Remaining: l.random.IntN(limit + 2)}
		s.Reset = pick(l.random, 0, 0, 1, time.Second, 30*time.Second, time.Minute, time.Hour, -time.Second)
		if oneIn(l.random, 12) {
			s.Remaining = -1
		}
		if oneIn(l.random, 4) {
			s.Limit, s.Rounding = l.random.IntN(300), pick(l.random, 0, -10, 10)
		}
	}
	if oneIn(l.random, 4) {
		limits.UncountedRequests = l.random.IntN(3)
		limits.Uncounted = ratelimit.Usage{PromptTokens: l.random.IntN(50), OutputTokens: l.random.IntN(50)}
	}
	if oneIn(l.random, 2) {
		limits.SentAt = l.now.Add(-pick(l.random, 0, 250*time.Millisecond, 250*time.Millisecond+1, time.Second, -time.Hour))
	}
	l.note("observe %s %s", model, render(limits))
	for _, h := range l.houses {
		h.rl.Observe(model, limits)
	}
	l.tell(model, &limits)
}

// tell has the books take a report over. It is of the model, as far as the model has such a limit;
// else of the only pool that has one, unless that is larger than the reported limit.
func (l *life) tell(model string, limits *ratelimit.ProviderLimits) {
	own := l.modelOf(model)
	for of, s := range said(limits) {
		if limitsOf(&own.quota)[of] != 0 {
			own.observe(l.now, of, s, limits)
			continue
		}
		var only *account
		several := false
		for _, pool := range l.poolsOf(model) {
			if limitsOf(&pool.quota)[of] != 0 {
				only, several = pool, only != nil
			}
		}
		if only != nil && !several && (s.Limit <= 0 || s.Limit >= limitsOf(&only.quota)[of]) {
			only.observe(l.now, of, s, limits)
		}
	}
}

// observe takes over what a report says of one limit.
func (a *account) observe(now time.Time, of int, s *ratelimit.ProviderLimit, limits *ratelimit.ProviderLimits) {
	limit := limitsOf(&a.quota)[of]
	if limit <= 0 || !s.HasRemaining || s.Remaining < 0 {
		return
	}
	sent := limits.SentAt
	if sent.IsZero() || sent.After(now) {
		sent = now
	}
	daily := of == perDay || of == tokensPerDay
	uncounted := demand{requests: limits.UncountedRequests, input: limits.Uncounted.PromptTokens, output: limits.Uncounted.OutputTokens}.of()[of]
	used := a.usedOf(now)[of]
	left := min(plus(s.Remaining, max(s.Rounding, 0)/2), limit)
	amount := max(0, limit-left-(used-min(uncounted, used)))
	until := now.Add(a.span)
	if daily {
		until = now.Add(24 * time.Hour)
		if !a.day.over(now) {
			until = earlier(until, a.day.end)
		} else if a.quota.DayZone != "" {
			_, end := dateOf(now, a.quota.DayZone)
			until = earlier(until, end)
		}
	}
	if s.Reset > 0 && s.Reset < 24*time.Hour && (daily || s.Reset < a.span) {
		until = earlier(until, now.Add(s.Reset))
	}
	switch r := &a.others[of]; {
	case r.amount == 0 || !r.until.After(now) || !sent.Before(r.sent.Add(-250*time.Millisecond)):
		*r = report{amount, until, sent}
	case amount > r.amount:
		r.amount = amount
		if until.After(r.until) {
			r.until = until
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// load saves the state, and has the private limiter load it: see the row of the differences.
func (l *life) load() {
	l.note("persist and load")
	for _, h := range l.houses {
		if err := h.rl.Persist(); err != nil {
			l.fail("%s: %v", h.kind, err)
		}
		if !l.alone {
			continue
		}
		if err := h.rl.Load(); err != nil {
			l.fail("%s: %v", h.kind, err)
		}
	}
	if !l.alone {
		return
	}
	for _, a := range l.models {
		a.others = [dimensions]report{}
	}
	for _, a := range l.pools {
		a.others = [dimensions]report{}
	}
	for _, c := range l.calls {
		for _, b := range c.bookings {
			b.load(l.now)
		}
	}
}
