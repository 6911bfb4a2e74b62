// A limiter with prices and budgets against a plain list of charges.

package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

// spendOracle is what the limiter should know: every charge of a model, with what it adds to its
// day and to its month.
type spendOracle struct {
	zone    *time.Location // nil for a day of 24 hours
	quota   ratelimit.ModelQuota
	price   money.Price
	charges []*spendCharge
	dayEnds time.Time // of a day of 24 hours
	began   time.Time
	audit   ratelimit.AuditEntry
}

type spendCharge struct {
	at         time.Time
	day, month money.Amount
}

// openCharge is an open reservation.
type openCharge struct {
	r             *ratelimit.Reservation
	of            *ratelimit.RateLimiter
	model         string
	charge, pool  *spendCharge
	most          money.Amount
	prompt, reply int
}

func (o *spendOracle) begins(now time.Time) (day, month time.Time) {
	zone := o.zone
	if zone == nil {
		zone = time.UTC
	}
	y, m, d := now.In(zone).Date()
	day, month = time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, 1, 0, 0, 0, 0, zone)
	if o.zone == nil {
		day = o.began
	}
	return day, month
}

func (o *spendOracle) ends(now time.Time) (day, month time.Time) {
	if day, month = o.begins(now); o.zone == nil {
		return o.dayEnds, month.AddDate(0, 1, 0)
	}
	return day.AddDate(0, 0, 1), month.AddDate(0, 1, 0)
}

func (o *spendOracle) spent(now time.Time) (day, month money.Amount) {
	begin, first := o.begins(now)
	for _, c := range o.charges {
		if !c.at.Before(begin) && (o.zone != nil || now.Before(o.dayEnds)) {
			day += c.day
		}
		if !c.at.Before(first) {
			month += c.month
		}
	}
	return day, month
}

// begin begins a day of 24 hours with a charge, where none lasts.
func (o *spendOracle) begin(now time.Time) {
	if day, _ := o.spent(now); day == 0 {
		o.began, o.dayEnds = now, now.Add(24*time.Hour)
	}
}

func (o *spendOracle) charge(now time.Time, amount money.Amount) *spendCharge {
	c := &spendCharge{at: now, day: amount, month: amount}
	if amount != 0 {
		o.begin(now)
		o.charges = append(o.charges, c)
	}
	return c
}

// settle replaces what a charge adds to periods that last, and adds what is above it to others.
func (o *spendOracle) settle(now time.Time, c *spendCharge, was, is money.Amount) {
	begin, first := o.begins(now)
	dayLasts := !c.at.Before(begin) && (o.zone != nil || now.Before(o.dayEnds)) && was != 0
	more := &spendCharge{at: now}
	if dayLasts {
		c.day = is
	} else if more.day = max(is-was, 0); more.day != 0 {
		o.begin(now)
	}
	if !c.at.Before(first) && was != 0 {
		c.month = is
	} else {
		more.month = max(is-was, 0)
	}
	o.charges = append(o.charges, more)
}

func addAudit(s *ratelimit.AuditSum, prompt, reply int, amount money.Amount) {
	s.Calls++
	s.InputTokens += prompt
	s.OutputTokens += reply
	s.Money += amount
}

func lessAudit(s *ratelimit.AuditSum, prompt, reply int, amount money.Amount) {
	s.Calls--
	s.InputTokens -= prompt
	s.OutputTokens -= reply
	s.Money -= amount
}

// spendSession is one run of a limiter beside the oracles of its models.
type spendSession struct {
	*testing.T
	random *rand.Rand
	rl     *ratelimit.RateLimiter   // that makes the next step,
	all    []*ratelimit.RateLimiter // of those that share the charges
	past   []ratelimit.Audit        // of those that were closed
	config ratelimit.Config
	of     map[string]*spendOracle
	pool   *spendOracle // of all models, without a limit that denies
	open   []*openCharge
}

func newSpendSession(t *testing.T, seed uint64, limiters int, change func(*ratelimit.Config)) *spendSession {
	s := &spendSession{T: t, random: rand.New(rand.NewPCG(seed, 7)), of: make(map[string]*spendOracle), pool: new(spendOracle)}
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Skip(err)
	}
	s.config = ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state"),
		Quotas:   map[string]ratelimit.ModelQuota{}, Prices: map[string]money.Price{},
	}
	s.config.Pools = map[string]ratelimit.Pool{
		"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerMonth: 1_000_000 * money.Dollar}},
	}
	change(&s.config)
	for model, o := range map[string]*spendOracle{
		"rolling": {}, "zoned": {zone: tokyo, quota: ratelimit.ModelQuota{DayZone: "Asia/Tokyo"}}, "free": {quota: ratelimit.ModelQuota{MaxRPD: 1_000_000}},
	} {
		if model != "free" {
			o.quota.MaxSpendPerDay, o.quota.MaxSpendPerMonth = 2*money.Dollar, 20*money.Dollar
			o.price = s.randomPrice()
		}
		s.of[model] = o
		s.config.Quotas[model], s.config.Prices[model] = o.quota, o.price
	}
	for range limiters {
		s.all = append(s.all, s.start())
	}
	return s
}

// start makes a limiter, with the prices and quotas as they are now.
func (s *spendSession) start() *ratelimit.RateLimiter {
	for model, o := range s.of {
		s.config.Quotas[model], s.config.Prices[model] = o.quota, o.price
	}
	rl, err := ratelimit.NewWithConfig(s.config)
	if err != nil {
		s.Fatal(err)
	}
	return rl
}

func (s *spendSession) close() {
	for _, rl := range s.all {
		if err := rl.Close(); err != nil {
			s.Error(err)
		}
	}
}

// restart closes a limiter, and has another take its place. Its open calls stay charged.
func (s *spendSession) restart() {
	i := s.random.IntN(len(s.all))
	s.rl = s.all[i]
	if s.config.Shared || s.config.Store != nil {
		s.open = slices.DeleteFunc(s.open, func(c *openCharge) bool { return c.of == s.rl })
		if err := s.rl.Close(); err != nil {
			s.Fatal(err)
		}
		s.past = append(s.past, s.rl.Audit())
		s.all[i] = s.start()
		return
	}
	if err := s.rl.Persist(); err != nil {
		s.Fatal(err)
	}
	if err := s.rl.Load(); err != nil {
		s.Fatal(err)
	}
}

func (s *spendSession) randomPrice() money.Price {
	return money.Price{
		Input: money.Amount(1 + s.random.IntN(3_000_000)), CachedInput: money.Amount(s.random.IntN(500_000)),
		CacheWrite: money.Amount(s.random.IntN(4_000_000)), Output: money.Amount(s.random.IntN(15_000_000)),
	}
}

func (s *spendSession) model() string {
	return []string{"rolling", "zoned", "rolling", "zoned", "free"}[s.random.IntN(5)]
}

func (s *spendSession) tokens() int { return s.random.IntN(100_000) }

// step makes one random step with the limiter and the oracle.
func (s *spendSession) step() {
	s.rl = s.all[s.random.IntN(len(s.all))]
	switch n := s.random.IntN(100); {
	case n < 30:
		s.reserve()
	case n < 55:
		s.end()
	case n < 65:
		s.record()
	case n < 75:
		time.Sleep(time.Duration(s.random.Int64N(int64(20 * time.Minute))))
	case n < 80:
		time.Sleep(time.Duration(s.random.Int64N(int64(30 * time.Hour))))
	case n < 82:
		s.rl.Reset([]string{"rolling", "zoned", ""}[s.random.IntN(3)])
	case n < 86:
		model := []string{"rolling", "zoned"}[s.random.IntN(2)]
		s.of[model].price = s.randomPrice()
		for _, rl := range s.all {
			if err := rl.SetPrice(model, s.of[model].price); err != nil {
				s.Fatal(err)
			}
		}
	case n < 89:
		model := []string{"rolling", "zoned"}[s.random.IntN(2)]
		q := &s.of[model].quota
		q.MaxSpendPerDay = money.Amount(s.random.IntN(5)) * money.Dollar
		q.MaxSpendPerMonth = money.Amount(s.random.IntN(50)) * money.Dollar
		s.rl.SetQuota(model, *q)
	case n < 93:
		if err := s.rl.Persist(); err != nil {
			s.Fatal(err)
		}
	case n < 95:
		s.restart()
	case n < 96:
		s.wait()
	default:
		s.rl.CanSend(s.model(), s.tokens())
	}
	s.check()
}

func (s *spendSession) reserve() {
	model, prompt, reply, now := s.model(), s.tokens(), s.tokens(), time.Now()
	o := s.of[model]
	most := o.price.MaxCost(prompt, reply)
	day, month := o.spent(now)
	q := &o.quota
	fits := (q.MaxSpendPerDay == 0 || day+most <= q.MaxSpendPerDay) && (q.MaxSpendPerMonth == 0 || month+most <= q.MaxSpendPerMonth)
	r, d := s.rl.Reserve(model, prompt, reply)
	if d.Allowed != fits {
		s.Fatalf("%v: Reserve(%s, %d, %d) of %v: %+v, spent are %v and %v", now, model, prompt, reply, most, d, day, month)
	}
	if r == nil {
		return
	}
	addAudit(&o.audit.Reserved, prompt, reply, most)
	addAudit(&o.audit.Open, prompt, reply, most)
	s.open = append(s.open, &openCharge{r, s.rl, model, o.charge(now, most), s.pool.charge(now, most), most, prompt, reply})
}

// end settles or cancels an open call; some twice.
func (s *spendSession) end() {
	s.expire()
	if len(s.open) == 0 {
		return
	}
	i := s.random.IntN(len(s.open))
	c := s.open[i]
	s.open = append(s.open[:i], s.open[i+1:]...)
	o, prompt, reply := s.of[c.model], s.tokens(), s.tokens()
	lessAudit(&o.audit.Open, c.prompt, c.reply, c.most)
	used := money.Usage{Input: prompt, Output: reply}
	switch s.random.IntN(4) {
	case 0:
		c.r.Cancel()
		addAudit(&o.audit.Released, c.prompt, c.reply, c.most)
		o.settle(time.Now(), c.charge, c.most, 0)
		s.pool.settle(time.Now(), c.pool, c.most, 0)
	case 1:
		used = money.Usage{Input: s.tokens(), CachedInput: s.tokens(), CacheWrite: s.tokens(), Output: s.tokens()}
		c.r.CommitUsage(prompt, reply, used)
	case 2:
		prompt, reply, used = c.prompt, c.reply, money.Usage{Input: c.prompt, Output: c.reply}
		c.r.Commit(prompt, reply)
	default:
		c.r.Commit(prompt, reply)
	}
	if o.audit.Released.Calls+o.audit.Estimated.Calls+o.audit.Expired.Calls+o.audit.Open.Calls < o.audit.Reserved.Calls {
		cost := o.price.Cost(used)
		addAudit(&o.audit.Estimated, c.prompt, c.reply, c.most)
		addAudit(&o.audit.Settled, prompt, reply, cost)
		o.settle(time.Now(), c.charge, c.most, cost)
		s.pool.settle(time.Now(), c.pool, c.most, cost)
	}
	if s.random.IntN(4) == 0 {
		c.r.Commit(1, 1)
		c.r.Cancel()
	}
}

// expire ends the open calls that the limiter has expired.
func (s *spendSession) expire() {
	synctest.Wait()
	kept := s.open[:0]
	for _, c := range s.open {
		if s.config.HoldTTL == 0 || time.Since(c.charge.at) < s.config.HoldTTL {
			kept = append(kept, c)
			continue
		}
		a := &s.of[c.model].audit
		lessAudit(&a.Open, c.prompt, c.reply, c.most)
		addAudit(&a.Expired, c.prompt, c.reply, c.most)
	}
	s.open = kept
}

func (s *spendSession) record() {
	model, prompt, reply := s.model(), s.tokens(), s.tokens()
	o, used := s.of[model], money.Usage{Input: prompt, Output: reply}
	if s.random.IntN(2) == 0 {
		s.rl.RecordUsage(model, prompt, reply)
	} else {
		used.CachedInput, used.CacheWrite = s.tokens(), s.tokens()
		s.rl.RecordSpend(model, prompt, reply, used)
	}
	cost := o.price.Cost(used)
	o.charge(time.Now(), cost)
	s.pool.charge(time.Now(), cost)
	addAudit(&o.audit.Recorded, prompt, reply, cost)
}

// wait makes sure that a denied request passes after RetryAfter, and not before.
func (s *spendSession) wait() {
	s.expire()
	model, prompt := s.model(), s.tokens()
	d := s.rl.DecideRequest(ratelimit.Request{Model: model, PromptTokens: prompt})
	if d.Allowed || d.Never {
		return
	}
	if d.Code != ratelimit.DecisionSpendLimit || d.RetryAfter <= 0 {
		s.Fatalf("%+v", d)
	}
	time.Sleep(d.RetryAfter - 1)
	if early := s.rl.DecideRequest(ratelimit.Request{Model: model, PromptTokens: prompt}); early.Allowed || early.RetryAfter != 1 {
		s.Fatalf("a nanosecond before: %+v", early)
	}
	time.Sleep(time.Nanosecond)
	if then := s.rl.DecideRequest(ratelimit.Request{Model: model, PromptTokens: prompt}); !then.Allowed {
		s.Fatalf("then: %+v", then)
	}
}

func (s *spendSession) check() {
	s.Helper()
	s.expire()
	audits := slices.Clone(s.past)
	for i, rl := range s.all {
		if audits = append(audits, rl.Audit()); s.config.Store != nil {
			rl.Persist() // which hears of the others
		}
		for model, o := range s.of {
			day, month := o.spent(time.Now())
			if got := rl.Stats(model); got.SpendDay != day || got.SpendMonth != month {
				dayEnds, monthEnds := o.ends(time.Now())
				s.Fatalf("%v: limiter %d: %s has spent %v and %v, want %v until %v and %v until %v",
					time.Now(), i, model, got.SpendDay, got.SpendMonth, day, dayEnds, month, monthEnds)
			}
		}
	}
	for i, rl := range s.all {
		day, month := s.pool.spent(time.Now())
		if got := rl.PoolStats("all"); got.SpendDay != day || got.SpendMonth != month {
			s.Fatalf("%v: limiter %d: the pool has spent %v and %v, want %v and %v", time.Now(), i, got.SpendDay, got.SpendMonth, day, month)
		}
	}
	for model, o := range s.of {
		if got := sumOfAudits(audits, model); got != o.audit {
			s.Fatalf("%v: the audit of %s is\n%+v, want\n%+v", time.Now(), model, got, o.audit)
		}
	}
	runtime.KeepAlive(s.open)
}

// sumOfAudits adds up the entries of a model.
func sumOfAudits(audits []ratelimit.Audit, model string) (sum ratelimit.AuditEntry) {
	for _, a := range audits {
		e := a.Models[model]
		for _, of := range [...]struct{ to, is *ratelimit.AuditSum }{
			{&sum.Reserved, &e.Reserved}, {&sum.Estimated, &e.Estimated}, {&sum.Settled, &e.Settled}, {&sum.Released, &e.Released},
			{&sum.Expired, &e.Expired}, {&sum.Open, &e.Open}, {&sum.Recorded, &e.Recorded},
		} {
			of.to.Calls += of.is.Calls
			of.to.InputTokens += of.is.InputTokens
			of.to.OutputTokens += of.is.OutputTokens
			of.to.Money += of.is.Money
		}
	}
	return sum
}

// playSpend makes random steps, with all ways to charge, to settle, to store and to change a
// limiter, or those that share a store.
func playSpend(t *testing.T, seed uint64, limiters, steps int, change func(*ratelimit.Config)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpendSession(t, seed, limiters, change)
		defer s.close()
		for range steps {
			s.step()
		}
	})
}

func TestSpendOracle(t *testing.T) {
	for _, backend := range backends {
		for _, ttl := range []time.Duration{0, time.Hour} {
			for seed := range uint64(times(3, 2, 100)) {
				t.Run(fmt.Sprint(backend, " ", ttl, " ", seed), func(t *testing.T) {
					t.Parallel()
					playSpend(t, seed, 1, 1000, func(cfg *ratelimit.Config) { cfg.Backend, cfg.HoldTTL = backend, ttl })
				})
			}
		}
	}
}

// Three limiters of a file count together, to the micro-dollar.
func TestSpendOracleShared(t *testing.T) {
	needSQLite(t)
	for seed := range uint64(times(3, 2, 100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			playSpend(t, seed, 3, 400, func(cfg *ratelimit.Config) {
				cfg.Backend, cfg.Shared, cfg.HoldTTL = "sqlite", true, time.Duration(seed%2)*time.Hour
				cfg.LeaseTTL = 1000 * time.Hour // a lease that is renewed for days takes most of the time
			})
		})
	}
}

// So do those of a store on another machine.
func TestSpendOracleStore(t *testing.T) {
	for seed := range uint64(times(6, 4, 200)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			playSpend(t, seed, 3, 600, func(cfg *ratelimit.Config) {
				cfg.FilePath, cfg.Store, cfg.HoldTTL = "", fakestore.New(), time.Duration(seed%2)*time.Hour
				cfg.LeaseTTL = 1000 * time.Hour
			})
		})
	}
}
