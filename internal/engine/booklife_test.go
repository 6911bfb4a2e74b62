package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the seed of one random life; 0 for the fixed ones")
	livesFlag = flag.Int("lives", max(2, 12/racetest.Factor), "how many random lives")
	stepsFlag = flag.Int("steps", 1000, "the steps of a random life")
)

// call is an open call, in the engine and in the books.
type call struct {
	real    *account.Call
	charges []*bookCharge
	asked   string
	tokens  state.Count
	most    money.Amount
	at      int64
	expires int64
	arrived bool
}

// life makes the same calls of an engine and of books.
type bookLife struct {
	*testing.T
	random  *rand.Rand
	e       *engine.Engine
	now     account.Now
	by      engine.By
	books   map[string]*book // by counted names
	quotas  map[string]state.Quota
	pools   map[string][]string // members
	classes map[string]state.Class
	models  []string
	calls   []*call
	waiters []*waiting
	zones   []string
	most    int // MaxModels
	uses    int
	prices  map[string]money.Amount // of a token; models without a price are absent
	log     []string
}

func TestRandomLivesAgreeWithBooks(t *testing.T) {
	if *seedFlag != 0 {
		newBookLife(t, *seedFlag).run(*stepsFlag)
		return
	}
	for seed := range uint64(*livesFlag) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) { newBookLife(t, seed+1).run(*stepsFlag) })
	}
}

func (l *bookLife) pick(of ...int) int { return of[l.random.IntN(len(of))] }

func (l *bookLife) quota(zones bool) (q state.Quota) {
	q = state.Quota{
		MaxRPM: l.pick(0, 0, 3, 6), MaxTPM: l.pick(0, 0, 150, 300), MaxRPD: l.pick(0, 0, 0, 12, 40),
		MaxITPM: l.pick(0, 0, 0, 70, 150), MaxOTPM: l.pick(0, 0, 0, 80, 120), MaxTPD: l.pick(0, 0, 0, 600, 2000),
		MaxInFlight: l.pick(0, 0, 0, 2, 4),
	}
	if zones {
		q.DayZone = []string{"", "", "UTC", "America/New_York"}[l.random.IntN(4)]
	}
	if l.prices != nil {
		q.MaxSpendPerDay, q.MaxSpendPerMonth = money.Amount(l.pick(0, 0, 1000, 3000)), money.Amount(l.pick(0, 0, 5000, 20000))
	}
	return q
}

func newBookLife(t *testing.T, seed uint64) *bookLife {
	l := &bookLife{
		T: t, random: rand.New(rand.NewPCG(seed, 7)), e: engine.New(0, nil), most: engine.DefaultMaxModels,
		books: make(map[string]*book), quotas: make(map[string]state.Quota), pools: make(map[string][]string),
		models: []string{"a", "b", "c", "star-1", "star-2", "star-3", "x-1", "nobody"},
		zones:  []string{"UTC", "America/New_York"},
	}
	start := time.Date(2026, time.October, 31, 20, 0, 0, 0, time.UTC).UnixNano() // DST ends the next day
	l.now = account.Now{Instant: 1e15, Wall: start + l.random.Int64N(dayLong)}
	l.by = engine.By{Span: account.Minute + int64(l.pick(0, 250))*1e6}
	if l.random.IntN(3) == 0 {
		l.prices = map[string]money.Amount{"a": 1, "b": 2, "star-1": 1, "x-1": 3}
	}
	if l.random.IntN(3) == 0 {
		l.by.HoldTTL = int64(l.pick(20, 90)) * 1e9
	}
	if l.prices == nil && l.random.IntN(3) == 0 { // the money of models without room counts together
		l.most = l.pick(1, 2, 3)
		l.e.SetMaxModels(l.most)
	}
	if l.random.IntN(3) == 0 {
		l.classes = map[string]state.Class{"r": {ReservePercent: 30}, "s": {ReservePercent: 20, Weight: 2}, "w": {Weight: 3}}
		l.e.SetClasses(l.classes, l.now)
	}
	l.bounds()
	for _, name := range []string{"a", "b", "*", "x-*"} {
		l.setQuota(name, l.quota(true))
	}
	for range l.random.IntN(3) {
		l.setPool()
	}
	return l
}

func (l *bookLife) run(steps int) {
	for range steps {
		l.step()
		if l.Failed() {
			l.Fatalf("the last calls:\n%s", strings.Join(l.log[max(len(l.log)-60, 0):], "\n"))
		}
	}
}

func (l *bookLife) say(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf("%d %s  ", l.now.Instant-1e15, time.Unix(0, l.now.Wall).UTC().Format("01-02 15:04:05.999999999"))+fmt.Sprintf(format, args...))
	if len(l.log) > 400 {
		l.log = slices.Delete(l.log, 0, 300)
	}
}

func (l *bookLife) step() {
	l.pass()
	switch n := l.random.IntN(100); {
	case n < 30:
		l.admit()
	case n < 50:
		l.settle()
	case n < 56:
		l.arrive()
	case n < 62:
		l.record()
	case n < 78:
		l.judge()
	case n < 86:
		l.enter()
	case n < 90:
		l.leave()
	case n < 91:
		l.setQuota([]string{"a", "b", "*", "x-*", "star-1"}[l.random.IntN(5)], l.quota(true))
	case n < 92 && l.random.IntN(3) == 0:
		l.setPool()
	case n < 93 && l.random.IntN(3) == 0:
		l.reset()
	case n < 94:
		l.cool()
	case n < 96:
		l.report()
	case n < 97 && l.random.IntN(4) == 0:
		l.setClock()
	}
	l.check()
}

// pass lets time pass: at each instant that the engine names, it is asked.
func (l *bookLife) pass() {
	by := []int64{0, 0, 1, 1e6, 1e9, 5e9, 20e9, 61e9, 600e9, 6 * 3600e9}[min(l.random.IntN(12), 9)]
	if l.random.IntN(8) > 0 {
		by = min(by, 20e9)
	}
	until := l.now.Instant + by
	next := func() int64 {
		due := l.e.Due()
		for _, w := range l.waiters {
			due = min(due, w.deadline)
		}
		return due
	}
	for next() <= until {
		due := max(next(), l.now.Instant)
		if before := due - 1; before > l.now.Instant && l.random.IntN(4) == 0 {
			l.move(before)
			l.check() // nobody is served too late
		}
		l.move(due)
		l.happens()
		l.check()
	}
	l.move(until)
	l.bounds()
	l.happens()
}

func (l *bookLife) move(instant int64) {
	l.now.Wall += instant - l.now.Instant
	l.now.Instant = instant
	l.bounds()
}

// bounds tells the days and months of zones.
func (l *bookLife) bounds() {
	l.e.Zones(l.now.Wall, func(name string) { l.tell(name) })
	for _, name := range l.zones {
		l.tell(name)
	}
}

func (l *bookLife) tell(name string) {
	zone := name
	if zone == "" {
		zone = "UTC"
	}
	is, month := calendar(zone, l.now.Wall)
	if name == "" {
		is = account.Span{}
	}
	l.e.Bounds(name, is, month, l.now)
}

// happens has the books follow what happens by itself, as the next verb of the engine does.
func (l *bookLife) happens() {
	l.e.Advance(l.now)
	defer l.tooLate()
	for i := 0; i < len(l.calls); i++ {
		if c := l.calls[i]; c.expires != 0 && c.expires <= l.now.Instant {
			l.say("%s expires", c.asked)
			l.tidy(c)
			for _, charge := range c.charges {
				charge.expire(l.now)
			}
			l.calls = slices.Delete(l.calls, i, i+1)
			i--
		}
	}
	l.follow()
}

// tooLate has those give up whose deadline is reached, as their contexts do.
func (l *bookLife) tooLate() {
	for _, w := range slices.Clone(l.waiters) {
		if w.deadline <= l.now.Instant {
			l.say("%v is too late", w.candidates)
			l.e.Leave(w.real, l.now)
			l.gone(w)
			l.follow()
		}
	}
}

// setClock sets the wall clock. Everything is looked at before and then, as Prune does: days that
// are over do not come back.
func (l *bookLife) setClock() {
	l.touch()
	l.now.Wall += int64(l.pick(-3600, -7200, 1800, 90000)) * 1e9
	l.say("the clock is set")
	l.bounds()
	l.touch()
	l.e.Serve(l.now)
	l.happens()
}

func (l *bookLife) touch() {
	for a := range l.e.Accounts {
		a.Refresh(l.now, l.by.Span)
		if a.Spend != nil {
			a.Spend.Settle(l.now.Wall)
		}
	}
	for _, b := range l.books {
		b.turn(l.now.Wall)
		b.settleSpend(l.now.Wall)
	}
}

// settleSpend brings periods from the future to the present.
func (b *book) settleSpend(wall int64) {
	for _, p := range b.spent {
		if p.day != nil && p.day.begin > wall {
			*p.day = b.dayAt(wall)
		}
		if p.month != nil && p.month.begin > wall {
			zone := b.quota.DayZone
			if zone == "" {
				zone = "UTC"
			}
			_, m := calendar(zone, wall)
			*p.month = day{m.Begin, m.End}
		}
	}
}

// bookOf returns the book of a counted name.
func (l *bookLife) bookOf(name string) *book {
	b := l.books[name]
	if b == nil {
		b = &book{name: name, span: l.by.Span, seen: make(map[string]int64), shares: make(map[string]int), pool: state.IsPool(name)}
		for class, c := range l.classes {
			if c.ReservePercent > 0 {
				b.shares[class] = c.ReservePercent
			}
		}
		l.books[name] = b
		l.cover(b)
	}
	return b
}

// cover gives a book the quota that covers it: its own, that of the longest pattern, or "*".
func (l *bookLife) cover(b *book) {
	q, own := l.quotas[b.name]
	b.listed, b.known = own, own
	for _, pattern := range []string{"x-*", "*"} {
		if is, ok := l.quotas[pattern]; ok && !b.known && !b.pool && (pattern == "*" || strings.HasPrefix(b.name, "x-")) {
			q, b.known = is, true
		}
	}
	b.rezone(q, l.now.Wall)
}

// rezone sets the quota. The usage of the present day counts to the day that is present in the
// zone.
func (b *book) rezone(q state.Quota, wall int64) {
	was := b.quota.DayZone
	b.turn(wall)
	b.quota = q
	if was == q.DayZone {
		return
	}
	if b.day != nil && q.DayZone == "" {
		b.day.end = b.day.begin + dayLong
	} else if b.day != nil {
		*b.day = b.dayAt(wall)
	}
	for _, p := range b.spent {
		b.rezoneSpend(p, wall)
	}
}

func (b *book) rezoneSpend(p *payment, wall int64) {
	zone := b.quota.DayZone
	if zone == "" {
		zone = "UTC"
	}
	is, month := calendar(zone, wall)
	if p.day != nil && p.day.begin <= wall && wall < p.day.end && b.quota.DayZone != "" {
		p.day.end = is.End
	}
	if p.month != nil && p.month.begin <= wall && wall < p.month.end {
		p.month.end = month.End
	}
}

func (l *bookLife) setQuota(name string, q state.Quota) {
	l.say("quota of %s: %+v", name, q)
	l.e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.SetQuota(name, q) }, l.now)
	l.quotas[name] = q
	for _, b := range l.books {
		if !b.listed && !b.pool && strings.Contains(name, "*") && l.isEmpty(b) {
			b.reset(l.now.Wall)
		}
		l.cover(b)
	}
	l.follow()
}

func (l *bookLife) setPool() {
	name := state.PoolName(fmt.Sprint("p", l.random.IntN(2)))
	if l.pools[name] != nil && l.random.IntN(3) == 0 {
		l.say("no pool %s", name)
		l.e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.RemovePool(name) }, l.now)
		delete(l.pools, name)
		delete(l.quotas, name)
		b := l.bookOf(name)
		b.reset(l.now.Wall)
		l.cover(b)
	} else {
		members := [][]string{{"*"}, {"a", "star-*"}, {"b", "nobody"}, {"a", "b"}}[l.random.IntN(4)]
		q := l.quota(false)
		l.say("pool %s of %v: %+v", name, members, q)
		l.e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.SetPool(name, members, q) }, l.now)
		l.pools[name], l.quotas[name] = members, q
		l.cover(l.bookOf(name))
	}
	l.follow()
}

// poolsOf returns the pools of a model, by name.
func (l *bookLife) poolsOf(model string) (in []string) {
	for _, name := range slices.Sorted(keys(l.pools)) {
		if slices.ContainsFunc(l.pools[name], func(m string) bool {
			return m == model || strings.Contains(m, "*") && strings.HasPrefix(model, strings.TrimSuffix(m, "*"))
		}) {
			in = append(in, name)
		}
	}
	return in
}

func (l *bookLife) reset() {
	name := l.models[l.random.IntN(len(l.models))]
	if l.random.IntN(4) == 0 {
		name = ""
	}
	l.say("reset %q", name)
	l.e.Reset(name, l.now)
	for _, b := range l.books {
		if name == "" || b.name == name {
			b.reset(l.now.Wall)
			b.cool, b.held = 0, [state.Dimensions]part{}
		}
	}
	l.follow()
}

func (l *bookLife) cool() {
	name := l.models[l.random.IntN(len(l.models))]
	until := l.now.Wall + int64(l.pick(0, 1, 10, 100))*1e9
	b := l.bookOf(name)
	if l.most < 10 && !b.listed {
		return
	}
	l.say("cool %s until %d", name, until)
	takes := l.e.Cool(name, name, until, "caller", l.now)
	if want := until > l.now.Wall && until > b.cool; takes != want {
		l.Errorf("the cooldown was taken: %v, want %v", takes, want)
	}
	if takes {
		b.cool = until
	}
	l.follow()
}

// report notes the usage of others.
func (l *bookLife) report() {
	name := []string{"a", "b"}[l.random.IntN(2)]
	a, b := l.e.Account(name), l.bookOf(name)
	if a == nil { // nothing has happened to it yet
		return
	}
	of := state.Dimension(l.random.IntN(int(state.InFlight)))
	if *b.quota.Limit(of) == 0 {
		return
	}
	amount, lasts := l.random.IntN(*b.quota.Limit(of)), int64(l.pick(1, 10, 59))*1e9
	until := l.now.Instant + lasts
	if state.Limits[of].Window == state.Day {
		until = l.now.Wall + lasts
	}
	l.say("others use %d of %v of %s for %v", amount, of, name, time.Duration(lasts))
	u := new(account.External)
	for of := range state.InFlight {
		h := b.held[of]
		u[of] = account.ExternalPart{Amount: h.amount, Until: h.until}
	}
	u[of] = account.ExternalPart{Amount: amount, Until: until}
	b.held[of] = part{amount, until}
	a.Report(u)
	l.e.Serve(l.now)
	l.follow()
}
