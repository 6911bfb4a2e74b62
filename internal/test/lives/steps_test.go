package lives

import (
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// book charges a reservation that was made.
func (l *life) book(reals []*ratelimit.Reservation, req ratelimit.Request) *call {
	c := &call{reals: reals, req: req, most: l.most(req), admitted: l.now}
	for _, a := range l.accountsOf(req.Model) {
		c.bookings = append(c.bookings, a.book(l.now, req.PromptTokens, req.OutputTokens, c.most))
		addSum(&a.audit.Reserved, req.PromptTokens, req.OutputTokens, c.most)
		addSum(&a.audit.Open, req.PromptTokens, req.OutputTokens, c.most)
	}
	l.calls = append(l.calls, c)
	c.uncounted = l.crowd && reals[0].ReservedAt().IsZero()
	l.expectOf(ratelimit.EventAdmitted, c, ratelimit.Usage{}, c.most)
	for i, h := range l.houses {
		if at := reals[i].ReservedAt(); !at.Equal(l.now) && !at.IsZero() {
			l.fail("%s: reserved at %v, and not now", h.kind, at)
		}
	}
	return c
}

func addSum(s *ratelimit.AuditSum, input, output int, amount money.Amount) {
	s.Calls++
	s.InputTokens += input
	s.OutputTokens += output
	s.Money = s.Money.Add(amount)
}

func subSum(s *ratelimit.AuditSum, input, output int, amount money.Amount) {
	s.Calls--
	s.InputTokens -= input
	s.OutputTokens -= output
	s.Money = s.Money.Sub(amount)
}

// finish ends a call in the books.
func (l *life) finish(c *call, kind ratelimit.EventKind, used ratelimit.Usage, cost money.Amount) {
	if c.settled {
		return
	}
	c.settled = true
	in, out := c.req.PromptTokens, c.req.OutputTokens
	for _, b := range c.bookings {
		b.account.inFlight--
		subSum(&b.account.audit.Open, in, out, c.most)
		switch audit := &b.account.audit; kind {
		case ratelimit.EventSettled:
			b.commit(l.now, used.PromptTokens, used.OutputTokens)
			b.settleMoney(l.now, cost)
			b.settleWindows(l.now, used.PromptTokens+used.OutputTokens, cost)
			addSum(&audit.Estimated, in, out, c.most)
			addSum(&audit.Settled, used.PromptTokens, used.OutputTokens, cost)
		case ratelimit.EventReleased:
			b.cancel(l.now)
			b.settleMoney(l.now, 0)
			b.settleWindows(l.now, 0, 0)
			addSum(&audit.Released, in, out, c.most)
		default: // expired
			addSum(&audit.Expired, in, out, c.most)
		}
		if b.account.inFlight == 0 { // those of before a window began are all over
			b.account.paysSince, b.account.monthCountsSince = time.Time{}, time.Time{}
		}
	}
	l.expectOf(kind, c, used, cost)
}

// drawCall draws one of all calls, and rather one of the last.
func (l *life) drawCall() *call {
	n := len(l.calls)
	if n == 0 {
		return nil
	}
	if l.random.IntN(4) > 0 {
		return l.calls[n-1-l.random.IntN(min(n, 6))]
	}
	return l.calls[l.random.IntN(n)]
}

// empties reports whether a call that is settled at a cost leaves nothing of a day that its first
// spend has begun: whether that day lasts on is left open.
func (l *life) empties(c *call, cost money.Amount) bool {
	return !c.settled && slices.ContainsFunc(c.bookings, func(b *booking) bool {
		p := b.account.spentDay
		return p != nil && p == b.spentDay && b.account.quota.DayZone == "" && p.amount+cost == c.most
	})
}

// commit settles a call, maybe for the second time.
func (l *life) commit() {
	if c := l.drawCall(); c != nil {
		l.commitThis(c, c.req.PromptTokens+pick(l.random, 0, 0, 1, 10, 60, -1, -10, -100), c.req.OutputTokens+pick(l.random, 0, 0, 1, 10, 60, -1, -10, -100))
	}
}

func (l *life) commitThis(c *call, input, output int) {
	used := ratelimit.Usage{PromptTokens: max(input, 0), OutputTokens: max(output, 0)}
	bill := money.Usage{Input: used.PromptTokens, Output: used.OutputTokens}
	kinds := oneIn(l.random, 3)
	if kinds {
		bill = l.drawUsage()
	}
	price, _ := l.priceOf(c.req.Model)
	cost := price.Cost(bill)
	if l.empties(c, cost) {
		return
	}
	l.note("commit %s of %v: %d, %d, at %v", render(c.req), c.admitted.UTC(), input, output, cost)
	for _, r := range c.reals {
		if kinds {
			r.CommitUsage(input, output, bill)
		} else {
			r.Commit(input, output)
		}
	}
	l.finish(c, ratelimit.EventSettled, used, cost)
	l.catchUp()
}

func (l *life) cancel() {
	c := l.drawCall()
	if c == nil || l.empties(c, 0) {
		return
	}
	l.note("cancel %s of %v", render(c.req), c.admitted.UTC())
	for _, r := range c.reals {
		r.Cancel()
	}
	l.finish(c, ratelimit.EventReleased, ratelimit.Usage{}, 0)
}

// settleMany settles half of the calls that are open.
func (l *life) settleMany() {
	for _, c := range l.calls {
		if !c.settled && l.random.IntN(2) == 0 {
			l.commitThis(c, c.req.PromptTokens/2, c.req.OutputTokens/2)
		}
	}
}

// burst makes many calls of one model that estimate too much.
func (l *life) burst() {
	model := pick(l.random, l.names...)
	noted := len(l.log)
	for range 40 {
		if req := (ratelimit.Request{Model: model, PromptTokens: 50}); l.reserve(req) {
			c := l.calls[len(l.calls)-1]
			l.commitThis(c, 1, 0)
		}
	}
	l.log = l.log[:noted]
	l.note("40 times reserve 50 tokens of %s, and commit 1", model)
}

// arrive tells that a call arrived, at any time: in the minute or the day that lasts, or in one
// that is over.
func (l *life) arrive() {
	c := l.drawCall()
	if c == nil {
		return
	}
	age := l.now.Sub(c.admitted)
	span := time.Minute + l.cfg.Margin
	at := pick(l.random, l.now, l.now.Add(-1), l.now.Add(time.Second), l.now.Add(-time.Second), c.admitted, c.admitted.Add(-1),
		c.admitted.Add(age/2), l.now.Add(-30*time.Second), l.now.Add(-span), l.now.Add(-span-1), c.admitted.Add(time.Duration(l.random.Int64N(int64(age)+1))))
	if zone := pick(l.random, c.bookings...).account.quota.DayZone; zone != "" && oneIn(l.random, 2) {
		begin, _ := dateOf(l.now, zone)
		at = begin.Add(-pick(l.random, 0, 1, 5*time.Second))
	}
	l.note("arrived %s of %v: %v", render(c.req), c.admitted.UTC(), at.UTC())
	for _, r := range c.reals {
		r.Arrived(at)
	}
	for _, b := range c.bookings {
		if !c.settled {
			b.arrive(l.now, at)
		}
	}
	c.arrived = true
}

func (l *life) record() {
	req, bill := l.drawRequest(), l.drawUsage()
	spends := oneIn(l.random, 2)
	req.PromptTokens = max(req.PromptTokens, 0)
	if !spends {
		bill = money.Usage{Input: req.PromptTokens, Output: req.OutputTokens}
	}
	l.note("record %s %+v", render(req), bill)
	for _, h := range l.houses {
		if spends {
			h.rl.RecordSpend(req.Model, req.PromptTokens, req.OutputTokens, bill)
		} else {
			h.rl.RecordUsage(req.Model, req.PromptTokens, req.OutputTokens)
		}
	}
	price, _ := l.priceOf(req.Model)
	for _, a := range l.accountsOf(req.Model) {
		a.charge(l.now, req.PromptTokens, req.OutputTokens)
		a.spend(l.now, price.Cost(bill))
		a.pay(l.now, price.Cost(bill))
		addSum(&a.audit.Recorded, req.PromptTokens, req.OutputTokens, price.Cost(bill))
	}
	l.expectRecorded(req, price.Cost(bill))
}

func (l *life) cooldown() {
	model := pick(l.random, l.names...)
	d := time.Duration(l.random.Int64N(int64(90 * time.Second)))
	cause := pick(l.random, ratelimit.CauseRateLimited, ratelimit.CauseDailyQuota, ratelimit.CauseOverloaded)
	l.note("cooldown of %s for %v, %s", model, d, cause)
	for _, h := range l.houses {
		h.rl.CooldownFor(model, d, cause)
	}
	l.modelOf(model).coolUntil(l.now, l.now.Add(d), cause)
}

func (l *life) setQuota() {
	name := pick(l.random, append(slices.Clone(l.own), "star-*", "*")...)
	if _, has := l.program[name]; has && oneIn(l.random, 3) && l.zones[name] == "" && name != l.counted(version) {
		l.note("remove quota %s", name)
		for _, h := range l.houses {
			h.rl.RemoveQuota(name)
		}
		delete(l.program, name)
		l.requote(name)
		return
	}
	q := l.drawQuota(l.random, name, 1)
	if l.alone && oneIn(l.random, 12) { // an invalid one is not shared
		q.MaxITPM = -1
	}
	l.note("quota %s %s", name, render(q))
	for _, h := range l.houses {
		h.rl.SetQuota(name, q)
	}
	l.program[name] = q
	l.requote(name)
}

// setPool makes a pool, changes one, or takes one away.
func (l *life) setPool() {
	if l.cfg.Pools == nil {
		return
	}
	name := pick(l.random, "org", "some", "new")
	a := l.pools[name]
	// The spend of a pool that is gone follows UTC. Where the month of its zone ends meanwhile, the
	// period may become too long, and begins anew: the oracle has no opinion.
	keeps := l.cfg.Prices != nil && l.zones["pool "+name] != "" && !l.rezones
	if a != nil && oneIn(l.random, 4) && !keeps {
		l.note("remove pool %s", name)
		for _, h := range l.houses {
			h.rl.RemovePool(name)
		}
		a.forget(l.now) // but for money and the calls in flight, should it come again
		a.removed = true
		a.setQuota(l.now, ratelimit.ModelQuota{})
		l.gone[name] = a
		delete(l.pools, name)
		delete(l.members, name)
		return
	}
	members := l.members[name]
	if a == nil || oneIn(l.random, 2) {
		members = nil
		for _, member := range []string{"full", "star-*", "*", "*-2", "s*", "org", "nobody"} {
			if oneIn(l.random, 3) {
				members = append(members, member)
			}
		}
	}
	pool := ratelimit.Pool{Models: members, Quota: l.drawQuota(l.random, "pool "+name, 2)}
	l.note("pool %s %s", name, render(pool))
	for _, h := range l.houses {
		h.rl.SetPool(name, pool)
	}
	if a == nil {
		if a = l.gone[name]; a == nil {
			a = &account{name: name, pool: true, known: true, span: time.Minute + l.cfg.Margin}
		}
		l.pools[name] = a
	}
	a.removed = false
	a.setQuota(l.now, pool.Quota)
	l.members[name] = members
}

func (l *life) reset() {
	model := pick(l.random, append(slices.Clone(l.names), "")...)
	l.note("reset %q", model)
	for _, h := range l.houses {
		h.rl.Reset(model)
	}
	if model != "" {
		l.modelOf(model).forget(l.now)
		return
	}
	for _, a := range l.models {
		a.forget(l.now)
	}
	for _, a := range l.pools {
		a.forget(l.now)
	}
}

func (l *life) setPrice() {
	if l.prices == nil {
		return
	}
	price := money.Price{Input: money.Amount(l.random.IntN(9_000_000)), Output: money.Amount(l.random.IntN(9_000_000))}
	l.note("price of full: %+v", price)
	for _, h := range l.houses {
		for _, rl := range h.all { // each process has its own
			if err := rl.SetPrice("full", price); err != nil {
				l.fail("%s: %v", h.kind, err)
			}
		}
	}
	l.prices["full"] = price
}

// sleep lets time pass: into the minute that is next, to the end of a day, to when something
// passes.
func (l *life) sleep() {
	span := time.Minute + l.cfg.Margin
	d := pick(l.random, 1, time.Second, 7*time.Second, 20*time.Second, 40*time.Second, time.Minute, span, span+1, 5*time.Second,
		10*time.Second, 3*time.Second, time.Hour)
	early := time.Duration(l.random.IntN(2))
	switch p := l.random.IntN(16); {
	case p < 5 && l.retryAt.Sub(l.now) > 1 && l.retryAt.Sub(l.now) < 40*time.Hour:
		d = l.retryAt.Sub(l.now) - early
	case p == 5:
		if zone := pick(l.random, zones...); zone != "" {
			_, end := dateOf(l.now, zone)
			d = end.Sub(l.now) - early
		}
	case p == 6:
		d = pick(l.random, 24*time.Hour, 23*time.Hour, 25*time.Hour)
	case p == 7:
		accounts := slices.Collect(maps.Values(l.models))
		slices.SortFunc(accounts, func(a, b *account) int { return strings.Compare(a.name, b.name) })
		if len(accounts) > 0 {
			if a := pick(l.random, accounts...); !a.day.over(l.now) {
				d = a.day.end.Sub(l.now) - early
			}
		}
	}
	if d = max(d, 1); !l.alone && d > time.Hour && l.random.IntN(2) == 0 {
		d = time.Hour
	}
	if d > 2*time.Minute && !l.alone {
		l.allLeave()
	}
	l.note("sleep %v", d)
	l.rest(d)
	if l.now.Equal(l.retryAt) || l.now.Equal(l.retryAt.Add(-1)) {
		l.reserveThese(l.last)
	}
}

// rest lets time pass, in which calls expire and waits end.
func (l *life) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	l.settled()
}
