package engine_test

import (
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

// request is what a life asks of one model.
type request struct {
	model  string
	tokens state.Count
}

func (l *bookLife) price(model string) (p money.Amount, known bool) {
	p, known = l.prices[model]
	return p, known || l.prices == nil
}

func (l *bookLife) costOf(model string, used state.Count) money.Amount {
	p, _ := l.price(model)
	return p * money.Amount(used.Total())
}

func (l *bookLife) draw(most int) (reqs []request) {
	for range 1 + l.random.IntN(most) {
		r := request{l.models[l.random.IntN(len(l.models))], state.Count{Input: l.pick(0, 1, 10, 40, 90), Output: l.pick(0, 1, 20, 50)}}
		if l.random.IntN(60) == 0 {
			r.tokens.Input = l.pick(200, 700, -1)
		}
		reqs = append(reqs, r)
	}
	return reqs
}

func (l *bookLife) class() string {
	if l.classes == nil {
		return ""
	}
	return []string{"", "r", "s", "w", "other"}[l.random.IntN(5)]
}

// real returns requests as the engine takes them.
func (l *bookLife) real(reqs []request) []engine.Request {
	all := make([]engine.Request, len(reqs))
	for i, r := range reqs {
		all[i] = engine.Request{Target: l.e.Resolve(r.model, r.model), Tokens: r.tokens, Most: l.costOf(r.model, r.tokens)}
		_, all[i].Priced = l.price(r.model)
	}
	return all
}

// asks returns what requests ask of each book: of those of models first, then of those of pools, by
// name.
func (l *bookLife) asks(reqs []request, class string) (all []*ask, models int) {
	add := func(name string, r request) {
		b := l.bookOf(name)
		i := slices.IndexFunc(all, func(a *ask) bool { return a.book == b })
		if i < 0 {
			i = len(all)
			all = append(all, &ask{book: b, class: class, priced: true})
		}
		a := all[i]
		a.cost.Requests++
		a.cost.Count = a.cost.Plus(r.tokens)
		_, priced := l.price(r.model)
		a.priced = a.priced && priced
		a.cost.Money += l.costOf(r.model, r.tokens)
	}
	for _, r := range reqs {
		add(r.model, r)
	}
	models = len(all)
	for _, r := range reqs {
		for _, pool := range l.poolsOf(r.model) {
			add(pool, r)
		}
	}
	slices.SortFunc(all[models:], func(a, b *ask) int { return strings.Compare(a.book.name, b.book.name) })
	l.findPlaces(all[:models])
	return all, models
}

// unlisted returns the books of models that hold a place, by their last use.
func (l *bookLife) unlisted() (all []*book) {
	for _, b := range l.books {
		if b.shown && !b.listed && !b.pool {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b *book) int { return a.usedAt - b.usedAt })
	return all
}

// isEmpty reports whether nothing of a model counts, and no call needs its place.
func (l *bookLife) isEmpty(b *book) bool {
	used := b.usedOf(state.RPD, "", l.now) + b.usedOf(state.TPD, "", l.now)
	return used == 0 && b.isIdle(l.now, l.waitsFor(b))
}

func (l *bookLife) findPlaces(asks []*ask) {
	holders := l.unlisted()
	free := l.most - len(holders)
	for _, b := range holders {
		if b.isIdle(l.now, l.waitsFor(b)) && !slices.ContainsFunc(asks, func(a *ask) bool { return a.book == b }) {
			free++
		}
	}
	for _, a := range asks {
		if q := a.book.quota; a.book.known && !q.IsUnlimited() && !a.book.listed && !a.book.shown {
			free--
			a.full = free < 0
		}
	}
}

// expected is the decision on requests.
type expected struct {
	code  string
	never bool
	event bool // no time says when they pass
	cools bool
	full  bool
	by    string // the name of the book that denies first
}

// decide decides on requests as if nobody waited.
func (l *bookLife) decide(reqs []request, class string, now account.Now) (x expected) {
	asks, models := l.asks(reqs, class)
	unplaced := 0
	for i, a := range asks {
		if x.never {
			break
		}
		d := a.book.deny(a, now)
		if slices.ContainsFunc(reqs, func(r request) bool {
			return min(r.tokens.Input, r.tokens.Output) < 0 && (r.model == a.book.name || slices.Contains(l.poolsOf(r.model), a.book.name))
		}) {
			d = denial{code: "invalid_tokens", never: true}
		}
		switch {
		case d.code == "":
		case i < models && d.never, x.code == "":
			x.code, x.never, x.by = d.code, d.never, a.book.name
		default:
			x.never = x.never || d.never
		}
		if i == 0 && models == 1 {
			x.cools = d.cools
		}
		x.event = x.event || d.event && !d.cools
		if q := a.book.quota; i < models && a.book.known && !q.IsUnlimited() && !a.book.listed {
			unplaced++
		}
		x.full = x.full || a.full
	}
	if !x.never && unplaced > l.most {
		return expected{code: "too_many_models", never: true, full: true}
	}
	if x.code == "" && len(reqs) >= 1 && models == 1 {
		switch q := asks[0].book.quota; {
		case !asks[0].book.known:
			x.code = "unknown_model"
		case q.IsUnlimited():
			x.code = "unlimited"
		}
	}
	if x.code == "" {
		x.code = "ok"
	}
	return x
}

func (x *expected) allows() bool {
	return x.code == "ok" || !x.never && (x.code == "unlimited" || x.code == "unknown_model")
}

// passesAt reports whether all limits that end with time let requests pass at a later instant.
func (l *bookLife) passesAt(reqs []request, class string, later int64) bool {
	now := account.Now{Instant: later, Wall: l.now.WallAt(later)}
	asks, _ := l.asks(reqs, class)
	for _, a := range asks {
		if d := a.book.deny(a, now); d.others {
			return false
		}
	}
	return true
}

// compare compares a decision of the engine with that of the books.
func (l *bookLife) compare(reqs []request, class string, v *verdict.Verdict) {
	l.Helper()
	x := l.decide(reqs, class, l.now)
	first, isPool := l.queues(reqs)
	isPool = isPool || first == ""
	if first != "" && !x.never && (!isPool || x.allows() || x.by == first) {
		x.code = "queued"
	}
	if isPool && !v.Allowed && !x.allows() && v.Never == x.never && (v.Code == "queued" || x.code == "queued") {
		return // whether somebody waits for a pool that has begun to deny is known when it is looked at
	}
	if v.Code != x.code || v.Never != x.never || v.Allowed != x.allows() {
		l.Errorf("%v of class %q: %s (never %v, %s), want %s (never %v)", reqs, class, v.Code, v.Never, v.Reason, x.code, x.never)
		return
	}
	switch {
	case v.Allowed || x.full || l.isReserved(reqs, class): // what is kept for classes changes with their use
	case v.Never || x.event && !x.cools || v.Code == "queued" && v.Retry == 0:
		if v.Retry != 0 {
			l.Errorf("%v: %s, after %v, which nobody can know", reqs, v.Code, v.Retry)
		}
	case v.Retry <= 0 || l.passesAt(reqs, class, l.now.Instant+int64(v.Retry)-1) || !l.passesAt(reqs, class, l.now.Instant+int64(v.Retry)):
		l.Errorf("%v of class %q: %s (%s), after %v, which is not exact: then %v, before %v", reqs, class, v.Code, v.Reason, v.Retry,
			l.passesAt(reqs, class, l.now.Instant+int64(v.Retry)), l.passesAt(reqs, class, l.now.Instant+int64(v.Retry)-1))
	}
}

// isReserved reports whether anything is kept for other classes.
func (l *bookLife) isReserved(reqs []request, class string) bool {
	asks, _ := l.asks(reqs, class)
	return slices.ContainsFunc(asks, func(a *ask) bool {
		for other := range a.book.shares {
			if seen, ever := a.book.seen[other]; ever && other != class && l.now.Instant-seen <= l.by.Span {
				return true
			}
		}
		return false
	})
}

// judge asks without charging.
func (l *bookLife) judge() {
	reqs, class := l.draw(3), l.class()
	by := l.by
	by.Class = class
	l.say("judge %v of %q", reqs, class)
	_, v := l.e.Judge(nil, &by, l.real(reqs), l.now)
	l.compare(reqs, class, &v)
}

// admit charges requests that pass.
func (l *bookLife) admit() {
	reqs, class := l.draw(2), l.class()
	by := l.by
	by.Class = class
	l.say("admit %v of %q", reqs, class)
	l.see(reqs, class)
	l.compareAdmit(reqs, class, &by)
	l.follow()
}

// see notes that a class with a reserve asks.
func (l *bookLife) see(reqs []request, class string) {
	if l.classes[class].ReservePercent == 0 {
		return
	}
	for _, r := range reqs {
		if b := l.bookOf(r.model); l.e.Account(r.model) != nil {
			b.seen[class] = l.now.Instant
		}
		for _, pool := range l.poolsOf(r.model) {
			l.bookOf(pool).seen[class] = l.now.Instant
		}
	}
}

func (l *bookLife) compareAdmit(reqs []request, class string, by *engine.By) {
	x := l.decide(reqs, class, l.now)
	first, _ := l.queues(reqs)
	_, before := l.e.Judge(nil, by, l.real(reqs), l.now)
	l.compare(reqs, class, &before)
	real, v := l.e.Admit(nil, by, l.real(reqs), l.now)
	if v.Allowed != (x.allows() && first == "") || v.Code != before.Code || v.Retry != before.Retry || v.Never != before.Never {
		l.Errorf("%v: admitted: %+v, judged: %+v, want %+v", reqs, v, before, x)
		return
	}
	if v.Allowed {
		l.charge(reqs, class, real)
	}
}

// charge has the books follow calls that were admitted.
func (l *bookLife) charge(reqs []request, class string, real []*account.Call) {
	made := make([]*call, len(reqs))
	for i, r := range reqs {
		if l.bookOf(r.model).shown {
			made[i] = l.chargeOne(r, class, real[i])
		}
	}
	for i, r := range reqs {
		if made[i] == nil {
			made[i] = l.chargeOne(r, class, real[i])
		}
	}
	l.calls = append(l.calls, made...)
}

func (l *bookLife) chargeOne(r request, class string, real *account.Call) *call {
	c := &call{real: real, asked: r.model, tokens: r.tokens, most: l.costOf(r.model, r.tokens), at: l.now.Instant}
	if l.by.HoldTTL > 0 {
		c.expires = l.now.Instant + l.by.HoldTTL
	}
	if counted := l.bookOf(r.model); l.hasPlace(counted) {
		c.charges = append(c.charges, counted.charge(r.tokens, class, c.most, l.now))
		if l.classes[class].ReservePercent > 0 {
			counted.seen[class] = l.now.Instant
		}
	}
	for _, pool := range l.poolsOf(r.model) {
		c.charges = append(c.charges, l.bookOf(pool).charge(r.tokens, class, c.most, l.now))
	}
	if (real.Model != nil) != (len(c.charges) > len(l.poolsOf(r.model))) {
		l.Errorf("%s: counted %v", r.model, real.Model != nil)
	}
	return c
}

// hasPlace makes a place for the usage of a model, if it needs one: that of the idle one that was
// used least recently.
func (l *bookLife) hasPlace(b *book) bool {
	l.uses++
	b.usedAt = l.uses
	if b.listed || b.shown {
		return true
	}
	holders := l.unlisted()
	if len(holders) < l.most {
		return true
	}
	for _, wanted := range []func(*book) bool{l.isEmpty, func(b *book) bool { return b.isIdle(l.now, l.waitsFor(b)) }} {
		for _, other := range holders {
			if wanted(other) {
				other.reset(l.now.Wall)
				return true
			}
		}
	}
	return false
}

func (l *bookLife) record() {
	r := l.draw(1)[0]
	r.tokens = state.Count{Input: max(r.tokens.Input, 0), Output: r.tokens.Output}
	l.say("record %v", r)
	t := l.e.Resolve(r.model, r.model)
	cost := l.costOf(r.model, r.tokens)
	counted := l.e.Record(&t, l.by.Span, r.tokens, cost, l.now) != nil
	b := l.bookOf(r.model)
	if want := l.hasPlace(b); counted != want {
		l.Errorf("%s was counted: %v, want %v", r.model, counted, want)
		return
	}
	if counted {
		b.record(r.tokens, cost, l.now)
	}
	for _, pool := range l.poolsOf(r.model) {
		l.bookOf(pool).record(r.tokens, cost, l.now)
	}
	l.follow()
}

func (l *bookLife) settle() {
	if len(l.calls) == 0 {
		return
	}
	i := l.random.IntN(len(l.calls))
	c := l.calls[i]
	l.calls = slices.Delete(l.calls, i, i+1)
	l.tidy(c)
	if l.random.IntN(4) == 0 {
		l.say("cancel %s of %v ago", c.asked, time.Duration(l.now.Instant-c.at))
		l.e.Settle(c.real, account.Cancelled, state.Count{}, 0, l.now)
		for _, charge := range c.charges {
			charge.cancel(l.now)
		}
	} else {
		used := state.Count{Input: l.pick(c.tokens.Input, 0, 5, 60), Output: l.pick(c.tokens.Output, 0, 30, 100)}
		cost := l.costOf(c.asked, used)
		l.say("commit %s of %v ago: %v instead of %v", c.asked, time.Duration(l.now.Instant-c.at), used, c.tokens)
		l.e.Settle(c.real, account.Committed, used, cost, l.now)
		for _, charge := range c.charges {
			was := charge.book.shown
			charge.commit(used, cost, l.now)
			l.reveal(charge.book, was)
		}
	}
	l.follow()
}

// tidy has models of a call give back places of which nothing is to be kept.
func (l *bookLife) tidy(c *call) {
	for _, charge := range c.charges {
		if b := charge.book; !b.listed && !b.pool && l.isEmpty(b) {
			b.reset(l.now.Wall)
		}
	}
}

// reveal finds a place for a model that had forgotten a call which was charged anew.
func (l *bookLife) reveal(b *book, was bool) {
	if was || !b.shown {
		return
	}
	if b.shown = false; (!b.pool || l.pools[b.name] != nil) && l.hasPlace(b) {
		b.shown = true
	} else {
		b.reset(l.now.Wall)
	}
}

func (l *bookLife) arrive() {
	if len(l.calls) == 0 {
		return
	}
	c := l.calls[l.random.IntN(len(l.calls))]
	at := min(c.at+l.random.Int64N(1+max(l.now.Instant-c.at, 0)), l.now.Instant)
	if l.random.IntN(4) == 0 {
		at = l.now.Instant
	}
	l.tidy(c)
	l.say("%s of %v ago arrives %v ago", c.asked, time.Duration(l.now.Instant-c.at), time.Duration(l.now.Instant-at))
	l.e.Arrive(c.real, at, l.now)
	for _, charge := range c.charges {
		was := charge.book.shown
		charge.arrive(at, l.now)
		l.reveal(charge.book, was)
		charge.arrived = true
	}
	c.arrived = true
	l.follow()
}

// check compares the usage of all accounts with that of the books.
func (l *bookLife) check() {
	l.Helper()
	for name, b := range l.books {
		a := l.e.Account(name)
		for of := range state.Dimensions {
			used := 0
			if a != nil {
				used = a.Used(of, l.by.Span, l.now)
			}
			if want := b.usedOf(of, "", l.now); used != want {
				l.Errorf("%s has used %d of its %s, want %d; its day is %+v and %+v, ended %d", name, used, state.Limits[of].Key, want, a.Day.Span, b.day, b.ended)
			}
		}
		if a != nil && a.Spend != nil {
			if day, month := b.spending(l.now.Wall); a.Spend.OfDay(l.now.Wall) != day || a.Spend.OfMonth(l.now.Wall) != month {
				l.Errorf("%s has spent %d and %d, want %d and %d: %+v", name, a.Spend.OfDay(l.now.Wall), a.Spend.OfMonth(l.now.Wall), day, month, a.Spend.Spend)
			}
		}
		if shown := a != nil && a.IsShown(); shown != b.shown {
			l.Errorf("%s has usage: %v, want %v", name, shown, b.shown)
		}
	}
	l.checkLines()
}
