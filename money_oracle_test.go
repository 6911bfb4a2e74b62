// Money: random calls within budgets, against books that keep what each call cost.

package ratelimit_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// spendPeriod is a day or a month of a budget.
type spendPeriod struct {
	end    time.Time
	amount money.Amount
}

func (p *spendPeriod) over(at time.Time) bool { return p == nil || !at.Before(p.end) }

// spendBook is the spend of a model or a pool.
type spendBook struct {
	quota      ratelimit.ModelQuota
	day, month *spendPeriod
	audits     [3]ratelimit.AuditEntry // by limiter
}

// monthOf returns the instant at which the month of a zone ends, by looking at each of its days.
func monthOf(t time.Time, zone string) time.Time {
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	for month := t.In(location).Month(); ; {
		if _, t = dateOf(t, zone); t.In(location).Month() != month {
			return t
		}
	}
}

// chargeDay adds an amount to the day that lasts, or begins one.
func (b *spendBook) chargeDay(now time.Time, amount money.Amount) *spendPeriod {
	if amount != 0 && b.day.over(now) {
		b.day = &spendPeriod{end: now.Add(24 * time.Hour)}
		if b.quota.DayZone != "" {
			_, b.day.end = dateOf(now, b.quota.DayZone)
		}
	}
	if amount != 0 {
		b.day.amount = b.day.amount.Add(amount)
	}
	return b.day
}

// chargeMonth is chargeDay for the month.
func (b *spendBook) chargeMonth(now time.Time, amount money.Amount) *spendPeriod {
	if amount != 0 && b.month.over(now) {
		b.month = &spendPeriod{end: monthOf(now, b.quota.DayZone)}
	}
	if amount != 0 {
		b.month.amount = b.month.amount.Add(amount)
	}
	return b.month
}

// spent returns what counts at an instant.
func (b *spendBook) spent(at time.Time) (day, month money.Amount) {
	if !b.day.over(at) {
		day = b.day.amount
	}
	if !b.month.over(at) {
		month = b.month.amount
	}
	return day, month
}

// denied returns whether the budget denies an amount, for good or for so long.
func (b *spendBook) denied(now time.Time, amount money.Amount) (denied, never bool, wait time.Duration) {
	day, month := b.spent(now)
	for _, p := range []struct {
		limit, used money.Amount
		period      *spendPeriod
	}{{b.quota.MaxSpendPerDay, day, b.day}, {b.quota.MaxSpendPerMonth, month, b.month}} {
		if p.limit == 0 {
			continue
		}
		never = never || amount > p.limit
		if p.used.Add(amount) > p.limit && !p.period.over(now) {
			denied, wait = true, max(wait, p.period.end.Sub(now))
		}
	}
	return denied || never, never, wait
}

// spendBooking is what a call has charged to a book.
type spendBooking struct {
	book       *spendBook
	day, month *spendPeriod
}

// spendCall is a reservation.
type spendCall struct {
	by       int
	real     *ratelimit.Reservation
	req      ratelimit.Request
	most     money.Amount
	admitted time.Time
	settled  bool
	bookings []*spendBooking
}

// settle replaces the most that a call could cost by what it did. What it exceeds a day or a month
// by that is over is spend of the present one.
func (b *spendBooking) settle(now time.Time, most, cost money.Amount) {
	exceeds := max(cost-most, 0)
	if b.inDay(now) {
		b.day.amount += cost - most
	} else {
		b.book.chargeDay(now, exceeds)
	}
	if b.month != nil && b.month == b.book.month && now.Before(b.month.end) {
		b.month.amount += cost - most
	} else {
		b.book.chargeMonth(now, exceeds)
	}
}

func (c *spendCall) commit(now time.Time, input, output int, cost money.Amount) {
	if c.settled {
		return
	}
	c.settled = true
	for _, b := range c.bookings {
		b.settle(now, c.most, cost)
		subSum(&b.book.audits[c.by].Open, c.req.PromptTokens, c.req.OutputTokens, c.most)
		addSum(&b.book.audits[c.by].Estimated, c.req.PromptTokens, c.req.OutputTokens, c.most)
		addSum(&b.book.audits[c.by].Settled, input, output, cost)
	}
}

// empties reports whether a call that is settled at a cost leaves nothing of a day that its first
// spend has begun: whether it lasts on then is left open.
func (c *spendCall) empties(now time.Time, cost money.Amount) bool {
	return !c.settled && slices.ContainsFunc(c.bookings, func(b *spendBooking) bool {
		return b.inDay(now) && b.book.quota.DayZone == "" && b.day.amount+cost == c.most
	})
}

// inDay reports whether the call was charged in the day that lasts.
func (b *spendBooking) inDay(now time.Time) bool {
	return b.day != nil && b.day == b.book.day && now.Before(b.day.end)
}

// end settles a call otherwise: it gives back what it has charged, or leaves it.
func (c *spendCall) end(now time.Time, cancelled bool) {
	if c.settled {
		return
	}
	c.settled = true
	for _, b := range c.bookings {
		subSum(&b.book.audits[c.by].Open, c.req.PromptTokens, c.req.OutputTokens, c.most)
		if cancelled {
			b.settle(now, c.most, 0)
			addSum(&b.book.audits[c.by].Released, c.req.PromptTokens, c.req.OutputTokens, c.most)
		} else {
			addSum(&b.book.audits[c.by].Expired, c.req.PromptTokens, c.req.OutputTokens, c.most)
		}
	}
}

// spendLife makes the same calls of limiters and of books.
type spendLife struct {
	*testing.T
	random   *rand.Rand
	cfg      ratelimit.Config
	reopen   func(cfg ratelimit.Config) *ratelimit.RateLimiter
	limiters []*ratelimit.RateLimiter
	private  bool
	longest  time.Duration // of a sleep; 0 is any
	prices   map[string]money.Price
	models   map[string]*spendBook
	pools    map[string]*spendBook
	calls    []*spendCall
	now      time.Time
	retryAt  time.Time
	last     []ratelimit.Request
	log      []string
}

// spendModels are three with prices, one of them under a pattern, and one without.
var spendModels = []string{"cheap", "dear", "exact-1", "unpriced"}

// spendMembers are the pools of a model.
var spendMembers = map[string][]string{"cheap": {"all", "team"}, "dear": {"all", "team"}, "exact-1": {"all"}, "unpriced": {"all"}}

func (s *spendLife) drawBudget(zone string, most money.Amount) ratelimit.ModelQuota {
	pick := func(of ...money.Amount) money.Amount { return of[s.random.IntN(len(of))] }
	return ratelimit.ModelQuota{DayZone: zone, MaxSpendPerDay: pick(0, most, most/2, most/7+1), MaxSpendPerMonth: pick(0, 4*most, 2*most, most+1)}
}

func newSpendLife(t *testing.T, seed uint64) *spendLife {
	s := &spendLife{T: t, random: rand.New(rand.NewPCG(seed, 23)), models: make(map[string]*spendBook), pools: make(map[string]*spendBook)}
	// 2000 has a 29th of February; Samoa had no 30th of December in 2011.
	time.Sleep([]time.Duration{0, 57*24*time.Hour + 11*time.Hour, 80 * 24 * time.Hour, 4380 * 24 * time.Hour, 364*24*time.Hour + 20*time.Hour}[s.random.IntN(5)])
	zone := []string{"", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "UTC", "Pacific/Apia"}
	zones := func() string { return zone[s.random.IntN(len(zone))] }
	s.prices = map[string]money.Price{
		"cheap":   {Input: money.USD(0.15), CachedInput: money.USD(0.07), Output: money.USD(0.60)},
		"dear":    {Input: money.USD(15), CacheWrite: money.USD(18.75), CachedInput: money.USD(1.50), Output: money.USD(75)},
		"exact-*": {Input: money.USD(3), Output: money.USD(11.1)},
	}
	s.cfg = ratelimit.Config{
		Prices:   maps.Clone(s.prices),
		Unpriced: ratelimit.UnpricedPolicy(s.random.IntN(2)),
		Quotas: map[string]ratelimit.ModelQuota{
			"cheap": s.drawBudget(zones(), 400), "dear": s.drawBudget(zones(), 20_000), "exact-1": {DayZone: zones()}, "unpriced": {},
		},
		Pools: map[string]ratelimit.Pool{
			"all":  {Models: []string{"*"}, Quota: s.drawBudget(zones(), 30_000)},
			"team": {Models: []string{"cheap", "dear"}, Quota: s.drawBudget(zones(), 15_000)},
		},
		HoldTTL: time.Duration(s.random.IntN(2)) * 26 * time.Hour,
	}
	for name, q := range s.cfg.Quotas {
		s.models[name] = &spendBook{quota: q}
	}
	for name, pool := range s.cfg.Pools {
		s.pools[name] = &spendBook{quota: pool.Quota}
	}
	return s
}

func (s *spendLife) note(format string, args ...any) {
	s.log = append(s.log, s.now.Format("2006-01-02 15:04:05.999999999 ")+fmt.Sprintf(format, args...))
}

func (s *spendLife) fail(format string, args ...any) {
	s.Helper()
	for _, line := range s.log[max(0, len(s.log)-40):] {
		s.Log(line)
	}
	for _, rl := range s.limiters {
		rl.Close()
	}
	s.Fatalf(format, args...)
}

func (s *spendLife) priceOf(model string) (money.Price, bool) {
	if model == "exact-1" {
		model = "exact-*"
	}
	price, ok := s.prices[model]
	return price, ok
}

// books returns the books of a model: its own, and those of its pools.
func (s *spendLife) books(model string) []*spendBook {
	books := []*spendBook{s.models[model]}
	for _, pool := range spendMembers[model] {
		books = append(books, s.pools[pool])
	}
	return books
}

func (s *spendLife) check(d ratelimit.Decision, reqs ...ratelimit.Request) bool {
	amounts, unpriced := make(map[*spendBook]money.Amount), false
	for _, req := range reqs {
		price, ok := s.priceOf(req.Model)
		for _, book := range s.books(req.Model) {
			amounts[book] = amounts[book].Add(price.MaxCost(req.PromptTokens, req.OutputTokens))
			limits := book.quota.MaxSpendPerDay > 0 || book.quota.MaxSpendPerMonth > 0
			unpriced = unpriced || !ok && limits && s.cfg.Unpriced == ratelimit.UnpricedDeny
		}
	}
	denied, never, wait := false, false, time.Duration(0)
	for book, amount := range amounts {
		is, ever, in := book.denied(s.now, amount)
		denied, never, wait = denied || is, never || ever, max(wait, in)
	}
	allowed := !denied && !unpriced
	tell := func(what string) {
		for book, amount := range amounts {
			day, month := book.spent(s.now)
			s.Logf("a day of %v/%v and a month of %v/%v are asked for %v", day, book.quota.MaxSpendPerDay, month, book.quota.MaxSpendPerMonth, amount)
		}
		s.fail("%s: %+v of %+v", what, d, reqs)
	}
	if d.Allowed != allowed || d.Reason == "" {
		tell("the books say otherwise")
	}
	if allowed {
		return true
	}
	switch {
	case unpriced && d.Code == ratelimit.DecisionUnpriced:
		if d.RetryAfter != 0 {
			tell("no time helps")
		}
	case !denied || d.Code != ratelimit.DecisionSpendLimit:
		tell("another code")
	case never && !d.Never && !unpriced:
		tell("it can never pass")
	case !unpriced && !never && d.RetryAfter != wait:
		tell(fmt.Sprintf("the books say in %v", wait))
	}
	if !unpriced && !never {
		s.last, s.retryAt = reqs, s.now.Add(wait)
	}
	return false
}

func (s *spendLife) any() (int, *ratelimit.RateLimiter) {
	i := s.random.IntN(len(s.limiters))
	return i, s.limiters[i]
}

func (s *spendLife) draw() ratelimit.Request {
	tokens := []int{1, 0, 10, 7, 33, 100, 120, 1}
	return ratelimit.Request{Model: spendModels[s.random.IntN(len(spendModels))],
		PromptTokens: tokens[s.random.IntN(len(tokens))], OutputTokens: tokens[s.random.IntN(len(tokens))]}
}

func (s *spendLife) reserve(reqs ...ratelimit.Request) {
	by, rl := s.any()
	rs, d := rl.ReserveAll(reqs...)
	s.note("%d: reserve %+v: %s %q %v", by, reqs, d.Code, d.Pool, d.RetryAfter)
	if !s.check(d, reqs...) {
		return
	}
	for i, req := range reqs {
		price, _ := s.priceOf(req.Model)
		c := &spendCall{by: by, real: rs[i], req: req, most: price.MaxCost(req.PromptTokens, req.OutputTokens), admitted: s.now}
		for _, book := range s.books(req.Model) {
			c.bookings = append(c.bookings, &spendBooking{book, book.chargeDay(s.now, c.most), book.chargeMonth(s.now, c.most)})
			addSum(&book.audits[by].Reserved, req.PromptTokens, req.OutputTokens, c.most)
			addSum(&book.audits[by].Open, req.PromptTokens, req.OutputTokens, c.most)
		}
		s.calls = append(s.calls, c)
	}
}

func (s *spendLife) drawUsage() money.Usage {
	n := func() int { return []int{0, 1, 10, 40, 150, 0}[s.random.IntN(6)] }
	return money.Usage{Input: n(), CachedInput: n(), CacheWrite: n(), Output: n()}
}

func (s *spendLife) record() {
	req, used := s.draw(), s.drawUsage()
	by, rl := s.any()
	if s.random.IntN(2) == 0 {
		used = money.Usage{Input: req.PromptTokens, Output: req.OutputTokens}
		rl.RecordUsage(req.Model, req.PromptTokens, req.OutputTokens)
	} else {
		rl.RecordSpend(req.Model, req.PromptTokens, req.OutputTokens, used)
	}
	s.note("%d: record %+v %+v", by, req, used)
	price, _ := s.priceOf(req.Model)
	for _, book := range s.books(req.Model) {
		book.chargeDay(s.now, price.Cost(used))
		book.chargeMonth(s.now, price.Cost(used))
		addSum(&book.audits[by].Recorded, req.PromptTokens, req.OutputTokens, price.Cost(used))
	}
}

func (s *spendLife) settle() {
	n := len(s.calls)
	if n == 0 {
		return
	}
	c := s.calls[n-1-s.random.IntN(min(n, 1+s.random.IntN(20)))]
	price, _ := s.priceOf(c.req.Model)
	input, output, used := c.req.PromptTokens, c.req.OutputTokens, s.drawUsage()
	switch s.random.IntN(4) {
	case 0:
		if c.empties(s.now, 0) {
			return
		}
		s.note("%d: cancel %s of %v", c.by, c.req.Model, c.admitted)
		c.real.Cancel()
		c.end(s.now, true)
	case 1:
		if c.empties(s.now, price.Cost(used)) {
			return
		}
		s.note("%d: commit %s of %v: %+v", c.by, c.req.Model, c.admitted, used)
		c.real.CommitUsage(input, output, used)
		c.commit(s.now, input, output, price.Cost(used))
	default:
		input, output = input+[]int{0, -10, 5, -1000}[s.random.IntN(4)], output+[]int{0, -10, 3, 99}[s.random.IntN(4)]
		cost := price.Cost(money.Usage{Input: input, Output: output})
		if c.empties(s.now, cost) {
			return
		}
		s.note("%d: commit %s of %v: %d, %d", c.by, c.req.Model, c.admitted, input, output)
		c.real.Commit(input, output)
		c.commit(s.now, max(input, 0), max(output, 0), cost)
	}
}

func (s *spendLife) sleep() {
	d := []time.Duration{1, time.Minute, time.Hour, 7 * time.Hour, 24*time.Hour - 1, 24 * time.Hour, 40 * time.Hour, 9 * 24 * time.Hour}[s.random.IntN(8)]
	books := slices.Collect(maps.Values(s.models))
	books = append(books, s.pools["all"], s.pools["team"])
	slices.SortFunc(books, func(a, b *spendBook) int { return int(a.quota.MaxSpendPerDay - b.quota.MaxSpendPerDay) })
	book := books[s.random.IntN(len(books))]
	early := time.Duration(s.random.IntN(2))
	switch p := s.random.IntN(8); {
	case p < 2 && !book.day.over(s.now):
		d = book.day.end.Sub(s.now) - early
	case p == 2 && !book.month.over(s.now):
		d = book.month.end.Sub(s.now) - early
	case p < 5 && s.retryAt.Sub(s.now) > 1:
		d = s.retryAt.Sub(s.now) - early
	}
	if s.longest > 0 {
		d = min(d, s.longest)
	}
	s.note("sleep %v", d)
	time.Sleep(d)
	if !s.private && slices.ContainsFunc(s.calls, func(c *spendCall) bool { return expiresNow(c.admitted, s.cfg.HoldTTL) }) {
		time.Sleep(time.Millisecond)
	}
	s.passed()
	if s.now.Equal(s.retryAt) || s.now.Equal(s.retryAt.Add(-1)) {
		s.reserve(s.last...)
	}
}

// passed notes what time it is, and that calls have expired.
func (s *spendLife) passed() {
	synctest.Wait()
	s.now = time.Now()
	for _, c := range s.calls {
		if s.cfg.HoldTTL > 0 && s.now.Sub(c.admitted) >= s.cfg.HoldTTL {
			c.end(s.now, false)
		}
	}
}

// change sets a price, a budget, or what else may change.
func (s *spendLife) change() {
	by, rl := s.any()
	switch s.random.IntN(5) {
	case 0:
		price := money.Price{Input: money.Amount(s.random.IntN(20_000_000)), Output: money.Amount(s.random.IntN(90_000_000))}
		s.note("price of dear: %+v", price)
		s.prices["dear"] = price
		for _, rl := range s.limiters {
			if err := rl.SetPrice("dear", price); err != nil {
				s.Fatal(err)
			}
		}
	case 1:
		name := spendModels[s.random.IntN(len(spendModels))]
		book := s.models[name]
		book.quota = s.drawBudget(book.quota.DayZone, 20_000)
		s.note("%d: quota of %s: %+v", by, name, book.quota)
		rl.SetQuota(name, book.quota)
	case 2:
		book := s.pools["team"]
		book.quota = s.drawBudget(book.quota.DayZone, 20_000)
		s.note("%d: pool team: %+v", by, book.quota)
		rl.SetPool("team", ratelimit.Pool{Models: []string{"cheap", "dear"}, Quota: book.quota})
	case 3:
		name := append(spendModels, "")[s.random.IntN(len(spendModels)+1)]
		s.note("%d: reset %q", by, name)
		rl.Reset(name)
	case 4:
		if s.note("%d: persist and load", by); rl.Persist() != nil || rl.Load() != nil {
			s.fail("it cannot persist or load")
		}
		// What was open when it was saved is settled, with nothing given back.
	}
}

// dateOf looks for the instants at which the date of a zone begins and ends,
// minute by minute.
func dateOf(t time.Time, zone string) (begin, end time.Time) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	date := func(t time.Time) int {
		y, m, d := t.In(location).Date()
		return y*10000 + int(m)*100 + d
	}
	today := date(t)
	begin = t.Truncate(time.Minute)
	for date(begin.Add(-time.Hour)) == today {
		begin = begin.Add(-time.Hour)
	}
	for date(begin.Add(-time.Minute)) == today {
		begin = begin.Add(-time.Minute)
	}
	end = t.Truncate(time.Minute)
	for date(end.Add(time.Hour)) == today {
		end = end.Add(time.Hour)
	}
	for date(end) == today {
		end = end.Add(time.Minute)
	}
	return begin, end
}

// expiresNow reports whether a call expires within a millisecond of now. Other limiters of a store
// may not know yet.
func expiresNow(admitted time.Time, ttl time.Duration) bool {
	late := time.Since(admitted) - ttl
	return ttl > 0 && late >= 0 && late < time.Millisecond
}
