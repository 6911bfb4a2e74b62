package replica

import (
	"cmp"
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// alone is what a process decides without the log, and has not told it yet.
//
// Of each window it takes its part of what was left when it went away: where the calls that all
// have heard of use K, and it has used O since, it admits as long as K + P·O fits. What all P take
// in this way fits together. Slots do not come back by time, and others do not say that theirs do:
// so each other process may hold its share of them, or as many as it held, and this one takes no
// more than its share: after its lease the others take it for gone.
type alone struct {
	since    int64 // the instant since which it is cut off
	shares   int   // how many share the quota
	hasShare bool
	charges  charges
	held     map[string]map[int64]int // open calls at the beginning, by account and process
	freed    map[string]int           // of them, own ones that have ended since
	cools    map[string]cooling       // cooldowns that the log does not know, by counted name,
	quotas   map[string]state.Quota   // and quotas
}

func newAlone() *alone {
	return &alone{charges: newCharges(), cools: make(map[string]cooling), quotas: make(map[string]state.Quota)}
}

// cooling is a cooldown, and the ask that tells it when the log is back.
type cooling struct {
	engine.Cool
	ask *ask
}

// leave has the process go on without the log.
func (r *Replica) leave() {
	r.take()
	fresh := r.status == here && time.Since(r.life.currentAt) <= r.traits.Contact
	if r.status, r.life.home = cutOff, nil; r.alone == nil {
		r.alone = newAlone()
	}
	a := r.alone
	a.since, a.shares = r.clock.expected(), max(r.state.Size(), 1)
	a.hasShare = fresh && !r.options.FailClosed
	a.held, a.freed = make(map[string]map[int64]int), make(map[string]int)
	for c := range r.state.Engine.Open {
		for i := range c.Charges {
			if on := c.Charges[i].Account(); on != nil && on.LimitsSlots() {
				if a.held[on.Name] == nil {
					a.held[on.Name] = make(map[int64]int)
				}
				a.held[on.Name][c.ID.Process]++
			}
		}
	}
	if a.charges.forget(); !r.isAway {
		clear(a.cools)
		clear(a.quotas)
	}
	r.isAlone.Store(true)
	for _, is := range r.asks.open() {
		r.decideAlone(is)
	}
	if why := cmp.Or(r.err, ErrAway); !r.isAway {
		r.isAway = true
		r.tell(why)
		r.tellAway(why)
	}
	r.change()
}

// tellAway tells why the log is away, or with nil that it is not.
func (r *Replica) tellAway(why error) {
	if r.options.Away != nil {
		r.options.Away(why)
	}
}

// decideAlone decides an ask by the share of this process, if it can.
func (r *Replica) decideAlone(a *ask) {
	verb, is := a.command.(fleet.Verb)
	if !is || a.fact != nil { // told anew, when the log is back; but nobody waits for a Bye
		r.settleAsk(a, answer{alone: true})
		return
	}
	switch c := verb.Command.(type) {
	case engine.Admit:
		r.admitAlone(a, &c)
	case engine.Enter:
		r.serveAlone(a, &c)
	case engine.Settle:
		r.settleAlone(a, c)
	case engine.Record:
		r.asks.drop(a)
		k := &record{fact: recorded(&c, r.process, a.n), at: r.clock.expected()}
		r.options.Lock.Lock()
		t := r.state.Engine.Resolve(c.Counted, c.Asked)
		r.options.Lock.Unlock()
		r.alone.charges.add(k, accountsOf(&t), r.clock.now().Wall).recorded = true
		a.answer(answer{outcome: &engine.Outcome{Done: true}, alone: true})
	case engine.Cool:
		r.coolAlone(a, &c)
	case engine.Reset: // sent when the log is back, too
		maps.DeleteFunc(r.alone.cools, func(name string, _ cooling) bool { return c.Counted == "" || name == c.Counted })
		a.answer(answer{alone: true})
	case engine.Arrive:
		r.arriveAlone(a, c)
	case engine.Observe, engine.Refuse: // what a provider said then is not so any more, and it says it again
		r.settleAsk(a, answer{alone: true})
	case engine.SetQuota:
		r.alone.quotas[c.Counted] = c.Quota
		a.answer(answer{alone: true})
	default: // sent when the log is back
		a.answer(answer{alone: true})
	}
}

// mayUse reports whether the process has a share. One that was stopped has it again only after it
// has found the log away anew.
func (r *Replica) mayUse() bool {
	return r.alone.hasShare && time.Since(r.life.failedAt) <= r.traits.Contact
}

func (r *Replica) admitAlone(a *ask, c *engine.Admit) {
	if !r.mayUse() {
		r.settleAsk(a, answer{err: ErrAway, alone: true})
		return
	}
	c.By.ID = account.ID{Process: r.process, N: a.n}
	v, calls := r.takeAlone(&c.By, c.Wants)
	r.settleAsk(a, answer{outcome: &engine.Outcome{Verdict: v, Calls: calls}, alone: true})
}

// settleAsk ends an ask that is not to be sent any more.
func (r *Replica) settleAsk(a *ask, is answer) {
	r.asks.drop(a)
	a.answer(is)
}

// serveAlone serves or refuses a waiter, if it can.
func (r *Replica) serveAlone(a *ask, c *engine.Enter) {
	end := engine.Ended{ID: account.ID{Process: r.process, N: a.n}, Served: -1, Of: -1}
	switch now := r.clock.expected(); {
	case now >= c.Deadline:
		end.Kind, end.Of = lines.Late, 0
		r.settleAsk(a, answer{outcome: &engine.Outcome{Ended: []engine.Ended{end}}, alone: true})
		return
	case !r.mayUse():
		return
	}
	c.By.ID = end.ID
	for i, wants := range c.Options {
		by := c.ByOf(i)
		var v verdict.Verdict
		if c.OnlyRoom {
			_, v = r.judgeAlone(&by, wants, r.clock.now())
		} else {
			v, end.Calls = r.takeAlone(&by, wants)
		}
		if v.Allowed {
			end.Served, end.Verdict = i, v
			r.settleAsk(a, answer{outcome: &engine.Outcome{Ended: []engine.Ended{end}}, alone: true})
			return
		}
	}
}

// serveAllAlone serves the waiters that may go by now.
func (r *Replica) serveAllAlone() {
	for _, a := range r.asks.open() {
		if verb, is := a.command.(fleet.Verb); is {
			if c, is := verb.Command.(engine.Enter); is {
				r.serveAlone(a, &c)
			}
		}
	}
}

// coolAlone has a cooldown hold, which never shortens one that ends later.
func (r *Replica) coolAlone(a *ask, c *engine.Cool) {
	was, is := r.alone.cools[c.Counted]
	if is && was.Until >= c.Until {
		r.settleAsk(a, answer{alone: true})
		return
	}
	if is {
		r.asks.drop(was.ask)
	}
	r.alone.cools[c.Counted] = cooling{*c, a}
	a.answer(answer{alone: true})
}

// arriveAlone notes when a call arrived that the log does not know. That of another one is sent
// when the log is back.
func (r *Replica) arriveAlone(a *ask, c engine.Arrive) {
	k := r.alone.charge(c.ID)
	if k == nil {
		a.answer(answer{alone: true})
		return
	}
	k.arrived = max(k.arrived, min(c.At, r.clock.expected()))
	r.settleAsk(a, answer{alone: true})
}

// settleAlone ends a call that the log does not know; the end of another one is sent when it is
// back.
func (r *Replica) settleAlone(a *ask, c engine.Settle) {
	if k := r.alone.charge(c.ID); k != nil {
		if k.fact.Open { // or else it is the cancelling of a stray
			k.settle(c)
		}
		delete(r.mine, c.ID)
		r.settleAsk(a, answer{alone: true})
		return
	}
	if k := r.record(c.ID); k != nil && !k.ending {
		k.ending = true
		if call := r.state.Engine.Call(c.ID); call != nil {
			for i := range call.Charges {
				if on := call.Charges[i].Account(); on != nil {
					r.alone.freed[on.Name]++
				}
			}
		}
	}
	a.answer(answer{alone: true})
}

// Judge judges requests by the share of this process, and charges nothing. ok is false where the
// log is not away, or there is no share to judge by.
func (r *Replica) Judge(by *engine.By, wants []engine.Want) (v verdict.Verdict, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != cutOff || !r.mayUse() {
		return v, false
	}
	_, v = r.judgeAlone(by, wants, r.clock.now())
	return v, true
}

// IsAlone reports whether the log is away.
func (r *Replica) IsAlone() bool { return r.isAlone.Load() }

func (r *Replica) judgeAlone(by *engine.By, wants []engine.Want, now account.Now) (reqs []engine.Request, v verdict.Verdict) {
	r.options.Lock.Lock() // others resolve names meanwhile
	defer r.options.Lock.Unlock()
	reqs = make([]engine.Request, len(wants))
	for i, w := range wants {
		t := r.state.Engine.Resolve(w.Counted, w.Asked)
		reqs[i] = engine.Request{Target: t, Tokens: w.Tokens, Most: w.Most, Priced: w.Priced, Deny: w.Deny}
	}
	items := r.state.Engine.Itemize(by, reqs, now)
	v = verdict.Judge(items, nil, now)
	for i := range items {
		if v.Allowed {
			r.alone.judge(&v, &items[i], i, reqs[items[i].Request].Counted, r.process, now)
		}
	}
	return reqs, v
}

// takeAlone judges requests by the share of this process, and charges them.
func (r *Replica) takeAlone(by *engine.By, wants []engine.Want) (v verdict.Verdict, ids []account.ID) {
	now := r.clock.now()
	reqs, v := r.judgeAlone(by, wants, now)
	if !v.Allowed {
		return v, nil
	}
	for i := range reqs {
		q := &reqs[i]
		k := &record{at: now.Instant, fact: engine.Charged{
			ID: by.ID, Name: engine.Name{Asked: q.Asked, Counted: q.Counted}, Tokens: q.Tokens.Clamp(), Most: q.Most, Class: by.Class, Open: true,
		}}
		if k.fact.ID.Place = int32(i); by.HoldTTL > 0 {
			k.holdUntil = now.Instant + by.HoldTTL
		}
		r.alone.charges.add(k, accountsOf(&q.Target), now.Wall)
		r.mine[k.fact.ID] = k
		ids = append(ids, k.fact.ID)
	}
	return v, ids
}

func accountsOf(t *engine.Target) []string {
	names := []string{t.Counted}
	for _, p := range t.Pools {
		names = append(names, p.Name)
	}
	return names
}

// charge returns the charge of a call that the log does not know; nil for none.
func (l *alone) charge(id account.ID) *charge {
	if l == nil {
		return nil
	}
	return l.charges.of[id]
}
