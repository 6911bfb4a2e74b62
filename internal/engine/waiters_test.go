package engine_test

import (
	"cmp"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/lines"
)

// waiting is a call that waits, as the oracle knows it: for any of its candidates.
type waiting struct {
	real       *lines.Waiter
	candidates [][]request
	deadline   int64
	refused    []bool // which candidates were, as far as is checked
}

// stands reports whether a candidate stands in line.
func (w *waiting) stands(i int) bool { return w.real.Candidates[i].Kind == lines.Stands }

// waitsFor reports whether anybody waits for the account of a book.
func (l *bookLife) waitsFor(b *book) bool {
	for _, w := range l.waiters {
		for i, reqs := range w.candidates {
			asks, _ := l.places(reqs)
			if w.stands(i) && slices.Contains(asks, b.name) {
				return true
			}
		}
	}
	return false
}

// places returns the names of the accounts in whose lines requests stand.
func (l *bookLife) places(reqs []request) (names []string, models int) {
	for _, r := range reqs {
		if !slices.Contains(names, r.model) {
			names = append(names, r.model)
		}
	}
	models = len(names)
	for _, r := range reqs {
		for _, pool := range l.poolsOf(r.model) {
			if !slices.Contains(names, pool) {
				names = append(names, pool)
			}
		}
	}
	return names, models
}

// turns is who is kept out of which lines, by the arrival of those that wait.
type turns struct {
	taken map[string]*waiting // the lines of models with somebody
	awake map[string]*waiting // the lines of pools with somebody whose models let it pass
	pass  []turn              // those that pass, each as if it were the first
}

// turn is a candidate that may be served.
type turn struct {
	*waiting
	candidate int
}

// turns looks at those that wait, in the order of their arrival. One that passes comes before later
// ones in the lines of its pools.
func (l *bookLife) turns() turns {
	t := turns{taken: make(map[string]*waiting), awake: make(map[string]*waiting)}
	for _, w := range l.waiters {
		served := false
		for i, reqs := range w.candidates {
			if !w.stands(i) {
				continue
			}
			asks, models := l.asks(reqs, "")
			isFree := func(a *ask) bool { // the candidates of one that comes do not stand in line yet
				by := t.taken[a.book.name]
				return by == nil || by == w && w.real.Seq == 0
			}
			isNext := all(asks[:models], isFree)
			for _, a := range asks[:models] {
				if t.taken[a.book.name] == nil {
					t.taken[a.book.name] = w
				}
			}
			passes := func(a *ask) bool { d := a.book.deny(a, l.now); return d.code == "" }
			if !isNext || !all(asks[:models], passes) {
				continue
			}
			kept := false
			for _, a := range asks[models:] {
				other := t.awake[a.book.name]
				if other != nil && other != w || !passes(a) {
					kept = true
					t.awake[a.book.name] = cmp.Or(other, w)
				}
			}
			if kept || served {
				continue
			}
			served = true
			t.pass = append(t.pass, turn{w, i})
			for _, a := range asks[models:] {
				t.awake[a.book.name] = cmp.Or(t.awake[a.book.name], w)
			}
		}
	}
	return t
}

func all[T any](list []T, ok func(T) bool) bool {
	return !slices.ContainsFunc(list, func(t T) bool { return !ok(t) })
}

// queues returns the first account in whose line others come before requests that come now; "" for
// none.
func (l *bookLife) queues(reqs []request) (first string, isPool bool) {
	t := l.turns()
	names, models := l.places(reqs)
	slices.Sort(names[models:])
	for i, name := range names {
		if i < models && t.taken[name] != nil || t.awake[name] != nil {
			return name, i >= models
		}
	}
	return "", false
}

// enter has a call wait, for one of several candidates of one or more requests.
func (l *bookLife) enter() {
	if l.classes != nil || l.most < 10 || len(l.waiters) > 12 { // who waits for a place asks again, at times
		return
	}
	w := &waiting{deadline: account.Never}
	var options []engine.Option
	for range l.pick(1, 1, 1, 2) {
		reqs := l.draw(l.pick(1, 1, 2))
		w.candidates, w.refused = append(w.candidates, reqs), append(w.refused, false)
		options = append(options, engine.Option{By: l.by, Requests: l.real(reqs)})
	}
	w.real = engine.NewWaiter(options...)
	if l.random.IntN(2) == 0 {
		w.deadline = l.now.Instant + int64(l.pick(1, 10, 30, 70))*1e9
		w.real.Deadline = w.deadline
	}
	l.say("enter %v until %d", w.candidates, w.deadline)
	for _, reqs := range w.candidates {
		for _, r := range reqs { // a model of which nothing is to be kept gives its place back
			if b := l.bookOf(r.model); !b.listed && l.isEmpty(b) {
				b.reset(l.now.Wall)
			}
		}
	}
	l.waiters = append(l.waiters, w)
	l.e.Enter(w.real, l.now)
	l.follow()
}

func (l *bookLife) leave() {
	if len(l.waiters) == 0 {
		return
	}
	w := l.waiters[l.random.IntN(len(l.waiters))]
	l.say("leave %v", w.candidates)
	l.e.Leave(w.real, l.now)
	l.gone(w)
	l.follow()
}

func (l *bookLife) gone(w *waiting) {
	l.waiters = slices.DeleteFunc(l.waiters, func(o *waiting) bool { return o == w })
}

// follow has the books follow those that were served, or refused, by the last verb.
func (l *bookLife) follow() {
	l.Helper()
	defer l.checkRefusals()
	for _, real := range l.e.Done() {
		i := slices.IndexFunc(l.waiters, func(w *waiting) bool { return w.real == real })
		if i < 0 {
			l.Errorf("a waiter has ended twice, or was not there")
			continue
		}
		w := l.waiters[i]
		if real.Served == nil {
			l.say("refused: %v, kind %d", w.candidates, real.Why.Kind)
			l.checkRefusal(w)
			l.gone(w)
			continue
		}
		at := slices.Index(real.Candidates, real.Served)
		if t := l.turns(); !slices.Contains(t.pass, turn{w, at}) {
			l.Errorf("served %v, by %d, and its turn is not yet: %+v", w.candidates, at, t.pass)
		}
		l.say("served: %v", w.candidates[at])
		l.gone(w)
		l.charge(w.candidates[at], "", real.Calls)
	}
}

func (l *bookLife) checkRefusals() {
	for _, w := range l.waiters {
		l.checkRefusal(w)
	}
}

// checkRefusal checks that candidates were refused which wait in vain.
func (l *bookLife) checkRefusal(w *waiting) {
	for i, reqs := range w.candidates {
		if w.refused[i] || w.stands(i) {
			continue
		}
		w.refused[i] = true
		switch kind := w.real.Candidates[i].Kind; kind {
		case lines.Never:
			if x := l.decide(reqs, "", l.now); !x.never {
				l.Errorf("%v was refused for ever, and is %+v", reqs, x)
			}
		case lines.Late:
			if w.deadline > l.now.Instant && l.couldPass(reqs, w.deadline) {
				l.Errorf("%v was refused as too late, and could pass by %d", reqs, w.deadline)
			}
		default:
			l.Errorf("%v was refused: %d", reqs, kind)
		}
	}
}

// couldPass reports whether requests could pass at an instant if all open calls gave everything
// back: of those that have arrived, all but the request.
func (l *bookLife) couldPass(reqs []request, at int64) bool {
	type kept struct {
		e   *bookEntry
		was bookEntry
	}
	var undo []kept
	change := func(e *bookEntry, arrived bool) {
		if e != nil {
			undo = append(undo, kept{e, *e})
			if e.tokens = (bookEntry{}).tokens; !arrived {
				e.requests = 0
			}
		}
	}
	for _, c := range l.calls {
		for _, charge := range c.charges {
			change(charge.minute, c.arrived)
			change(charge.inDay, c.arrived)
		}
	}
	type paid struct {
		b     *book
		spent []*payment
	}
	var spent []paid
	for _, b := range l.books {
		spent = append(spent, paid{b, b.spent})
		for _, c := range b.open {
			b.spent = append(slices.Clone(b.spent), nil)[:len(b.spent)]
			b.repay(c.most, c.paidAt, 0, l.now.Wall)
		}
	}
	passes := l.passesAt(reqs, "", at)
	for i := len(undo) - 1; i >= 0; i-- {
		*undo[i].e = undo[i].was
	}
	for _, p := range spent {
		p.b.spent = p.spent
	}
	return passes
}

// checkLines checks that nobody waits whose turn it is.
func (l *bookLife) checkLines() {
	l.Helper()
	for _, t := range l.turns().pass {
		l.Errorf("%v waits, and passes", t.candidates[t.candidate])
	}
	waiting := make(map[string]int)
	for _, w := range l.waiters {
		for _, c := range w.real.Candidates {
			for i := range c.Items {
				if c.Kind == lines.Stands {
					waiting[c.Items[i].Account.Name]++
				}
			}
		}
	}
	for name, n := range waiting {
		if a := l.e.Account(name); a == nil || a.Waiting != n {
			l.Errorf("%d wait for %s, want %d", a.Waiting, name, n)
		}
	}
}
