package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

const (
	second = int64(time.Second)
	hour   = int64(time.Hour)
)

// entry is one entry of a log.
type entry struct {
	now        account.Now
	process, n int64
	command    engine.Command
}

// life makes up commands that fit an engine, as several processes would send them.
type life struct {
	*rand.Rand
	e       *engine.Engine
	calm    bool // few wait
	now     account.Now
	n       [4]int64 // the last number of each process
	calls   []account.ID
	waiters []account.ID
	facts   []engine.Charged
}

func newLife(seed uint64, e *engine.Engine) *life {
	return &life{
		Rand: rand.New(rand.NewPCG(seed, 1)), e: e, calm: seed%2 == 1,
		now: account.Now{Instant: 1e15, Wall: 1_711_900_000e9}, // hours before a change to summer time
	}
}

var (
	models  = []string{"a", "b", "c-1", "c-2", "d", "e", "f-1", "f-2", "f-3", "f-4", "z"}
	zones   = []string{"", "", "Europe/Berlin", "America/New_York"}
	classes = []string{"", "batch", "live", "eval", "other"}
)

func pick[T any](l *life, all []T) T { return all[l.IntN(len(all))] }

// step lets time pass.
func (l *life) step() {
	switch l.IntN(40) {
	case 0:
		l.pass(l.Int64N(3 * hour))
	case 1:
		l.pass(l.Int64N(100 * second))
	case 2, 3, 4, 5, 6:
		l.pass(l.Int64N(5 * second))
	case 7:
		l.now.Wall += l.Int64N(20*second) - 10*second
	case 8, 9, 10, 11, 12, 13, 14, 15:
	case 16:
		if l.IntN(8) == 0 {
			l.now.Wall += l.Int64N(30*hour) - 10*hour
		}
	case 17:
		if due := l.e.Due(); due < l.now.Instant+hour {
			l.pass(max(due-l.now.Instant, 0))
		}
	default:
		l.pass(l.Int64N(second / 4))
	}
}

func (l *life) pass(d int64) { l.now.Instant, l.now.Wall = l.now.Instant+d, l.now.Wall+d }

// bounds tells the bounds of a zone. Days are of 23, 24 or 25 hours.
func (l *life) bounds(zone string) engine.Bounds {
	if zone == "" {
		month := 30 * 24 * hour
		begin := l.now.Wall / month * month
		return engine.Bounds{Month: account.Span{Begin: begin, End: begin + month}}
	}
	begin := (l.now.Wall-7*hour)/(24*hour)*24*hour + 7*hour
	day := account.Span{Begin: begin, End: begin + 24*hour}
	switch begin / (24 * hour) % 3 {
	case 1:
		day.End -= hour
	case 2:
		day.Begin -= hour
	}
	if !day.Holds(l.now.Wall) {
		day = account.Span{Begin: day.End, End: day.End + 25*hour}
	}
	return engine.Bounds{Zone: zone, Day: day, Month: account.Span{Begin: day.Begin - 9*24*hour, End: day.Begin + 20*24*hour}}
}

// entries returns the next entries: first the bounds of zones that nobody has told.
func (l *life) entries() (all []entry) {
	l.step()
	var unknown []string
	l.e.Zones(l.now.Wall, func(name string) { unknown = append(unknown, name) })
	slices.Sort(unknown)
	for _, zone := range unknown {
		all = append(all, l.entry(l.bounds(zone)))
	}
	return append(all, l.entry(l.command()))
}

func (l *life) entry(c engine.Command) entry {
	p := l.IntN(len(l.n))
	l.n[p]++
	return entry{l.now, int64(p + 1), l.n[p], c}
}

// heard notes what an entry has brought about.
func (l *life) heard(t entry, o *engine.Outcome) {
	l.calls = append(l.calls, o.Calls...)
	if o.Waits {
		l.waiters = append(l.waiters, account.ID{Process: t.process, N: t.n})
	}
	for _, end := range o.Ended {
		l.calls = append(l.calls, end.Calls...)
	}
	if len(l.calls) > 60 {
		l.calls = l.calls[len(l.calls)-60:]
	}
	if len(l.waiters) > 60 {
		l.waiters = l.waiters[30:]
	}
}

func (l *life) command() engine.Command {
	switch l.IntN(100) {
	case 0, 1, 2:
		return l.saying()
	case 3:
		return l.setting()
	case 4:
		return l.report()
	case 5:
		if l.IntN(4) > 0 {
			return l.report()
		}
		return engine.Observe{Name: l.name(), Span: account.Minute, Report: engine.Report{Learns: true, Limits: state.ReportedLimits{state.RPM: {Limit: l.IntN(3) * 10}}}}
	case 6:
		return engine.Refuse{Name: l.name(), Refusal: account.ProviderRefusal{Overload: l.IntN(2) == 0, Took: l.Int64N(3 * second), Wait: l.Int64N(20 * second)}}
	case 7:
		return engine.Cool{Name: l.name(), Until: max(l.now.Wall+l.Int64N(90*second)-10*second, 0), Cause: "overloaded"}
	case 8:
		if l.IntN(6) == 0 {
			return engine.Reset{Counted: pick(l, append(models, "", state.PoolName("p")))}
		}
		return engine.Advance{}
	case 9, 10, 11:
		return l.fact()
	case 12, 13, 14, 15, 16, 17, 18, 19:
		return engine.Record{Name: l.name(), Span: l.by().Span, Used: l.tokens(), Cost: money.Amount(l.Int64N(3e5))}
	case 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39:
		if !l.calm || l.IntN(6) == 0 {
			return l.enter()
		}
	case 40, 41, 42:
		if len(l.waiters) > 0 {
			w := pick(l, l.waiters)
			if l.IntN(3) == 0 {
				price := func() engine.Price { return engine.Price{Most: money.Amount(l.Int64N(3e5)), Known: l.IntN(8) > 0} }
				other := pick(l, l.waiters)
				return engine.Reprice{Waiters: []engine.Repriced{{N: w.N, Prices: []engine.Price{price(), price()}}, {N: other.N, Prices: []engine.Price{price()}}}}
			}
			return engine.Leave{Process: w.Process, N: w.N, Places: 3}
		}
	case 43, 44, 45, 46:
		if len(l.calls) > 0 {
			return engine.Arrive{ID: pick(l, l.calls), At: l.now.Instant - l.Int64N(5*second)}
		}
	}
	if len(l.calls) > 0 && l.IntN(2) == 0 {
		i := l.IntN(len(l.calls))
		id := l.calls[i]
		l.calls = slices.Delete(l.calls, i, i+1)
		s := engine.Settle{ID: id, How: account.How(l.IntN(6) % 4)}
		if s.How == account.Committed {
			s.Used, s.Cost = l.tokens(), money.Amount(l.Int64N(3e5))
		}
		return s
	}
	return engine.Admit{By: l.by(), Wants: l.wants()}
}

func (l *life) name() engine.Name {
	n := pick(l, models)
	if l.IntN(5) == 0 {
		return engine.Name{Asked: "alias-" + n, Counted: n}
	}
	return engine.Name{Asked: n, Counted: n}
}

func (l *life) tokens() state.Count { return state.Count{Input: l.IntN(60), Output: l.IntN(40)} }

func (l *life) by() engine.By {
	by := engine.By{Class: pick(l, classes), Span: account.Minute + second/4, MaxQueue: l.IntN(3) * 6, HoldTTL: l.Int64N(3) * l.Int64N(90*second)}
	if l.IntN(3) == 0 {
		by.Flow = fmt.Sprint("flow-", l.IntN(4))
	}
	if l.IntN(500) == 0 {
		by.Span += l.Int64N(2 * second)
	}
	return by
}

func (l *life) wants() []engine.Want {
	wants := make([]engine.Want, max(l.IntN(6)-2, 1))
	for i := range wants {
		wants[i] = engine.Want{
			Name: l.name(), Tokens: l.tokens(), Most: money.Amount(l.Int64N(4e5)), Priced: l.IntN(20) > 0, Deny: l.IntN(30) == 0,
		}
		if l.IntN(50) == 0 {
			wants[i].Tokens.Input = -1
		}
	}
	return wants
}

func (l *life) enter() engine.Command {
	c := engine.Enter{By: l.by(), Deadline: account.Never, Options: [][]engine.Want{l.wants()}, OnlyRoom: l.IntN(10) == 0}
	for l.IntN(3) == 0 {
		c.Options = append(c.Options, l.wants())
	}
	if l.IntN(2) == 0 {
		c.Deadline = l.now.Instant + l.Int64N(200*second)
	}
	if l.IntN(2) == 0 {
		c.Patient = l.now.Instant + l.Int64N(20*second)
	}
	return c
}

// fact tells a call of before, or again one that was told.
func (l *life) fact() engine.Command {
	if n := len(l.facts); n > 0 && l.IntN(2) == 0 {
		f := pick(l, l.facts[max(n-10, 0):])
		if f.Open = l.IntN(2) == 0; !f.Open {
			f.How, f.Hold = account.How(l.IntN(4)), 0
		}
		if f.Used, f.Cost = (state.Count{}), 0; !f.Open && f.How == account.Committed {
			f.Used, f.Cost = l.tokens(), money.Amount(l.Int64N(3e5))
		}
		return f
	}
	f := engine.Charged{
		ID: account.ID{Process: 9, N: int64(len(l.facts))}, Name: l.name(), Ago: l.Int64N(70 * second),
		Tokens: l.tokens(), Most: money.Amount(l.Int64N(3e5)), Class: pick(l, classes), Open: true, Hold: l.Int64N(2) * l.Int64N(60*second),
	}
	if len(l.calls) > 0 && l.IntN(3) == 0 {
		f.ID = pick(l, l.calls)
	}
	l.facts = append(l.facts, f)
	l.calls = append(l.calls, f.ID)
	return f
}

func (l *life) report() engine.Command {
	c := engine.Observe{Name: l.name(), Span: account.Minute + second/4}
	for of := range c.Report.Limits {
		if l.IntN(2) == 0 {
			c.Report.Limits[of] = state.ReportedLimit{
				Limit: l.IntN(50), Remaining: l.IntN(40), HasRemaining: l.IntN(4) > 0, Reset: time.Duration(l.Int64N(90 * second)), Rounding: l.IntN(3),
			}
		}
	}
	c.Report.Uncounted.Requests = l.IntN(3)
	c.Report.Counted[state.RPM] = l.IntN(5)
	c.Report.SentAt = l.now.Instant - l.Int64N(4*second)
	return c
}

func (l *life) quota() state.Quota {
	var q state.Quota
	set := func(n *int, most int) {
		if l.IntN(3) == 0 {
			*n = 1 + l.IntN(most)
		}
	}
	set(&q.MaxRPM, 12)
	set(&q.MaxTPM, 900)
	set(&q.MaxRPD, 150)
	set(&q.MaxITPM, 500)
	set(&q.MaxOTPM, 400)
	set(&q.MaxTPD, 9000)
	set(&q.MaxInFlight, 6)
	if l.IntN(3) == 0 {
		q.Burst = time.Duration(1 + l.Int64N(40*second))
	}
	if l.IntN(4) == 0 {
		q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM = 1+l.IntN(10), 20+l.IntN(100)
	}
	if l.IntN(4) == 0 {
		q.AdaptiveFloorInFlight = 1 + l.IntN(4)
	}
	if l.IntN(4) == 0 {
		q.MaxSpendPerDay = money.Amount(1e6 + l.Int64N(9e6))
	}
	if l.IntN(6) == 0 {
		q.MaxSpendPerMonth = money.Amount(1e7 + l.Int64N(9e7))
	}
	if l.IntN(4) == 0 {
		q.MaxTokensPerMonth = 500 + l.IntN(9000)
	}
	if l.IntN(4) == 0 {
		q.MaxSpendPerTenMinutes = money.Amount(1e6 + l.Int64N(9e6))
	}
	if q.DayZone = pick(l, zones); l.IntN(60) == 0 {
		q.MaxRPM = -1
	}
	return q
}

var quotaNames = []string{"a", "b", "c-*", "c-1", "d", "*", "e", "f-*"}

func (l *life) quotas() map[string]state.Quota {
	all := make(map[string]state.Quota)
	for range l.IntN(4) {
		all[pick(l, quotaNames)] = l.quota()
	}
	return all
}

func (l *life) saying() engine.Command {
	pool := state.PoolName(pick(l, []string{"p", "q", "r"}))
	switch l.IntN(16) {
	case 0:
		return engine.RemoveQuota{Counted: pick(l, append(quotaNames, pool))}
	case 1:
		return engine.SetAccount{Quotas: l.quotas()}
	case 2:
		p := catalog.Profile{Provider: "prov", Below: l.IntN(2) == 0}
		q := l.quota()
		for _, name := range []string{"c-*", "c-2", "d", "e"} {
			if l.IntN(2) == 0 {
				p.Rows = append(p.Rows, catalog.Row{Name: name, Group: pick(l, []string{"", "g"}), Quota: q})
			}
		}
		return engine.AddProfile{Profile: p}
	case 3:
		return engine.Learn{Counted: pick(l, models), Quota: l.quota()}
	case 4:
		return engine.ForgetLearned{Counted: pick(l, []string{"", "a", "c-1"})}
	case 5, 6, 7:
		return engine.SetPool{Counted: pool, Models: []string{pick(l, models), pick(l, models), pick(l, []string{"*", "f-*", "c-1"})}, Quota: l.quota()}
	case 8:
		return engine.RemovePool{Counted: pool}
	case 9:
		f := catalog.File{Quotas: l.quotas(), Said: map[string]state.Said{}, Pools: map[string][]string{pool: {"a", "f-*"}}}
		if l.IntN(2) == 0 {
			f.Quotas[pool] = l.quota()
		}
		for name, q := range f.Quotas {
			f.Said[name] = state.SaidBy(state.Account, q)
		}
		return engine.Loaded{File: f, Learns: l.IntN(2) == 0}
	default:
		return engine.SetQuota{Counted: pick(l, quotaNames), Quota: l.quota()}
	}
}

func (l *life) setting() engine.Command {
	if l.IntN(3) == 0 {
		return engine.SetMaxModels{Most: 1 + l.IntN(8)}
	}
	all := make(map[string]state.Class)
	for _, name := range classes[:4] {
		if l.IntN(3) > 0 {
			c := state.Class{Weight: l.IntN(5), MaxQueue: l.IntN(2) * 8, Ahead: l.IntN(4) == 0}
			if name != "" {
				c.ReservePercent = l.IntN(2) * 20
			}
			all[name] = c
		}
	}
	return engine.SetClasses{Classes: all}
}
