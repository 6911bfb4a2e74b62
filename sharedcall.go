package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/replica"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

// reserve is Reserve and ReserveAll. What does not pass by what the log says now is not sent.
func (s *shared) reserve(by caller, reqs []Request) (made Reservations, d Decision) {
	rl := s.rl
	option, ok := s.judge(&by, reqs, &d)
	if !ok && !d.Never {
		s.replica.Fresh(background, 0)
		option, ok = s.judge(&by, reqs, &d)
	}
	var e *telling
	decide := func(o *replica.Outcome) { // with the lock held
		if o == nil {
			e = e.then(s.undoLocked(made))
			made = nil
			return
		}
		made = s.decidedLocked(&option, o, &d)
		e = e.then(s.reservedLocked(&by, made, &d, reqs))
	}
	if ok && len(reqs) > 0 {
		err := s.replica.DoOwn(engine.Admit{By: option.By, Wants: wantsOf(option.Requests)}, decide)
		if ok = err == nil; !ok {
			s.fail(&d, err)
		}
	} else if ok {
		made = Reservations{}
	}
	if !ok {
		rl.mu.Lock()
		e = e.then(s.reservedLocked(&by, nil, &d, reqs))
		rl.mu.Unlock()
	}
	rl.teller.tell(e)
	made.watch()
	return made, d
}

// decidedLocked makes a decision what the log has decided, and returns the reservations.
func (s *shared) decidedLocked(option *engine.Option, o *replica.Outcome, d *Decision) (made Reservations) {
	now := s.now()
	if !o.Verdict.Allowed {
		s.rl.fillRLocked(d, &o.Verdict, s.itemsLocked(option, now), now)
		return nil
	}
	if !d.Allowed { // by what was known here before
		*d = Decision{Stats: d.Stats}
		s.rl.explainRLocked(d, &o.Verdict, s.itemsLocked(option, now))
	}
	return s.madeLocked(option, o.Calls, o.Alone, now)
}

// reservedLocked notes a decision, and returns the events that tell of it.
func (s *shared) reservedLocked(by *caller, made Reservations, d *Decision, reqs []Request) *telling {
	if len(reqs) == 1 {
		d.Model = reqs[0].Model
	} else if d.Allowed {
		d.Model, d.Stats = "", ModelStats{}
	}
	return s.rl.reservedLocked(by, made, d, reqs, s.now())
}

// undoLocked ends calls that were admitted so late that nobody hears of it.
func (s *shared) undoLocked(made Reservations) (e *telling) {
	for _, r := range made {
		if c := r.liveRLocked(); c != nil {
			e = e.then(s.rl.endedLocked(c, account.Cancelled, c.Tokens, s.now()))
			c.Ended, r.call = true, nil
			delete(s.calls, c.ID)
		}
	}
	return e
}

// settle ends a call of this limiter, and returns once that is in the log, or the store is away.
func (s *shared) settle(r *Reservation, how account.How, used tokens.Count, bill *money.Usage) {
	rl := s.rl
	var cost money.Amount
	rl.mu.RLock()
	c := r.liveRLocked()
	if c != nil && how == account.Committed && rl.pricing != nil {
		cost = rl.costOfRLocked(c, used, bill)
	}
	rl.mu.RUnlock()
	if c == nil || !r.claim() {
		return
	}
	var e *telling
	now := s.now()
	end := func(o *replica.Outcome) { // with the lock held
		if o != nil && !c.Ended { // it may have expired before
			c.Cost = cost
			e = rl.endedLocked(c, how, used, now)
			c.Ended = true
			delete(s.calls, c.ID)
		}
	}
	if err := s.replica.DoOwn(engine.Settle{ID: c.ID, How: how, Used: used, Cost: cost}, end); err != nil {
		rl.mu.Lock()
		end(new(replica.Outcome))
		rl.mu.Unlock()
	}
	rl.teller.tell(e)
}

// decideAlone decides on a request while the store is away, by the share of this process.
func (s *shared) decideAlone(d *Decision, req *Request) {
	reqs := []Request{*req}
	option, ok := s.judge(&caller{asking: asking{class: req.Class}}, reqs, d)
	if !ok {
		return
	}
	v, ok := s.replica.Judge(&option.By, wantsOf(option.Requests))
	if !ok || v.Allowed {
		return
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	now := s.rl.nowLocked()
	s.rl.fillRLocked(d, &v, s.itemsLocked(&option, now), now)
}

// judge decides on requests by what is known here, and reports whether to ask for them.
func (s *shared) judge(by *caller, reqs []Request, d *Decision) (option engine.Option, ok bool) {
	rl := s.rl
	*d = Decision{}
	if len(reqs) == 1 {
		if option, ok, sure := s.judgeOne(by, &reqs[0], d); sure {
			return option, ok
		}
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, asked := rl.enterAllLocked(reqs)
	option = engine.Option{By: rl.by(by.asking), Requests: asked}
	if refusal := s.refusesRLocked(); refusal != nil {
		*d = *refusal
		return option, false
	}
	items, v := rl.engine.Judge(nil, &option.By, asked, now)
	rl.fillRLocked(d, &v, items, now)
	if len(asked) == 1 {
		rl.statsRLocked(&d.Stats, asked[0].Account, now)
	}
	return option, v.Allowed || !v.Never && rl.engine.Due() <= now.Instant
}

// judgeOne is judge for one request, beside others that look; sure is false where judge has to
// change something first.
func (s *shared) judgeOne(by *caller, req *Request, d *Decision) (option engine.Option, ok, sure bool) {
	rl := s.rl
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	asked := make([]engine.Request, 1)
	now, sure := rl.lookRLocked(req.Model, &asked[0].Target)
	if !sure {
		return option, false, false
	}
	asked[0] = rl.askRLocked(req, &asked[0].Target)
	option = engine.Option{By: rl.by(by.asking), Requests: asked}
	items, v := rl.engine.Judge(nil, &option.By, asked, now)
	rl.fillRLocked(d, &v, items, now)
	rl.statsRLocked(&d.Stats, asked[0].Account, now)
	return option, v.Allowed || !v.Never && rl.engine.Due() <= now.Instant, true
}

// wantsOf returns requests as a command has them.
func wantsOf(asked []engine.Request) []engine.Want {
	wants := make([]engine.Want, len(asked))
	for i := range asked {
		r := &asked[i]
		wants[i] = engine.Want{
			Name:   engine.Name{Asked: r.Asked, Counted: r.Counted},
			Tokens: r.Tokens, Most: r.Most, Priced: r.Priced, Deny: r.Deny,
		}
	}
	return wants
}

// itemsLocked returns what the accounts of requests are now: those of a verdict in the log are not
// kept.
func (s *shared) itemsLocked(o *engine.Option, now account.Now) []verdict.Item {
	for i := range o.Requests {
		r := &o.Requests[i]
		r.Target = s.rl.engine.Resolve(r.Counted, r.Asked)
	}
	return s.rl.engine.Itemize(&o.By, o.Requests, now)
}

// fail is the decision where a command has failed.
func (s *shared) fail(d *Decision, err error) {
	if stats := d.Stats; errors.Is(err, replica.ErrClosed) {
		*d = Decision{Code: DecisionClosed, Reason: limiterClosed, Never: true, Stats: stats}
	} else {
		*d = *s.unusable(err)
		d.Stats = stats
	}
}

// madeLocked returns the reservations of calls that were admitted together. alone says that the
// engine does not know them yet.
func (s *shared) madeLocked(o *engine.Option, ids []account.ID, alone bool, now account.Now) Reservations {
	rl := s.rl
	rs := make(Reservations, len(ids))
	for i, id := range ids {
		r := &o.Requests[i]
		c := &account.Call{ID: id, Asked: r.Asked, Class: o.By.Class, Tokens: r.Tokens.Clamp(), Most: r.Most, At: now}
		is := rl.engine.Call(id)
		switch {
		case is != nil:
			c.At = is.At
			nameAs(c, is)
		case alone:
			r.Target = rl.engine.Resolve(r.Counted, r.Asked)
			if c.Model = r.Account; c.Model.Name == "" {
				c.Model = account.New(r.Counted)
			}
			c.Names(append([]*account.Account{c.Model}, r.Pools...)...)
		}
		if c.IsCounted() {
			s.calls[id] = c
		}
		rl.admittedLocked(r.Counted, now)
		rs[i] = rl.reservationLocked(c, rl.holdTTL > 0 || limitSlots(accountsOf(c)))
	}
	return rs
}

// nameAs has a call charged to the accounts that another one is charged to.
func nameAs(c, is *account.Call) {
	c.Model = is.Model
	c.Names(accountsOf(is)...)
}

// accountsOf returns the accounts that a call has charged.
func accountsOf(c *account.Call) (all []*account.Account) {
	for charge := range c.Charges {
		if a := charge.Account(); a != nil {
			all = append(all, a)
		}
	}
	return all
}

// expiredLocked notes that a call has ended by itself.
func (s *shared) expiredLocked(id account.ID, how account.How, now account.Now) {
	c := s.calls[id]
	if c == nil { // of another process
		return
	}
	s.rl.teller.postRLocked(s.rl.endedLocked(c, how, c.Tokens, now))
	c.Ended = true
	delete(s.calls, id)
}

// record is RecordUsage.
func (s *shared) record(model string, used tokens.Count, bill *money.Usage) {
	rl := s.rl
	rl.mu.Lock()
	_, t := rl.enterLocked(model)
	closed := rl.closed
	rl.meetLocked(&t)
	cost := rl.costRLocked(&t, used, bill)
	rl.mu.Unlock()
	if closed {
		return
	}
	c := engine.Record{Name: engine.Name{Asked: t.Asked, Counted: t.Counted}, Span: rl.span(), Used: used, Cost: cost}
	o, err := s.replica.Do(background, c)
	if err != nil {
		return
	}
	rl.mu.Lock()
	_, t = rl.enterLocked(model)
	rl.auditRecordedLocked(&t, o.Done, used, cost)
	rl.mu.Unlock()
	rl.teller.recorded(model, used, cost)
}

// wait is RateLimiter.wait: the line is that of all processes.
func (s *shared) wait(ctx context.Context, by *caller, w *waiter) (Reservations, error) {
	if len(w.requests) == 0 {
		return Reservations{}, nil
	}
	rl := s.rl
	began := rl.teller.now()
	c, options, closed := s.enter(ctx, by, w)
	if closed {
		return nil, fmt.Errorf("%s: %w", w.op, ErrClosed)
	}
	o, err := s.replica.Wait(ctx, c, func(n int64) { s.lined(by, w, n) })
	if by.queued {
		by.waited = time.Since(began)
	}
	if err == nil && ctx.Err() == nil {
		s.served(w, options, &o)
		if w.err == nil {
			rl.teller.served(by, w)
		}
		w.reservations.watch()
		return w.reservations, w.err
	}
	for _, id := range o.Calls {
		s.replica.Tell(engine.Settle{ID: id, How: account.Cancelled})
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, replica.ErrClosed):
		return nil, fmt.Errorf("%s: %w", w.op, ErrClosed)
	}
	var d Decision
	s.fail(&d, err)
	return nil, &LimitError{Model: w.requests[0].Model, Decision: d, Err: err, op: w.op}
}

// enter returns the command of a waiter, and what it may be served by.
func (s *shared) enter(ctx context.Context, by *caller, w *waiter) (c engine.Enter, options []engine.Option, closed bool) {
	rl := s.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	w.rl = rl
	by.asking = askingOf(ctx, w.requests)
	now, asked := rl.enterAllLocked(w.requests)
	options = w.optionsLocked(by, asked)
	c = engine.Enter{By: options[0].By, Deadline: account.Never, OnlyRoom: !w.charges}
	if deadline, ok := ctx.Deadline(); ok {
		c.Deadline = max(now.Instant+int64(min(time.Until(deadline), 1<<61)), 0)
	}
	if w.patience > 0 {
		c.Patient = now.Instant + int64(w.patience)
	}
	for i := range options {
		c.Options = append(c.Options, wantsOf(options[i].Requests))
	}
	return c, options, rl.closed
}

// lined tells that a waiter stands in line.
func (s *shared) lined(by *caller, w *waiter, n int64) {
	rl := s.rl
	if rl.teller == nil || by.queued {
		return
	}
	rl.mu.Lock()
	if of := rl.engine.Waiter(s.process, n); of != nil && of.By != nil {
		w.why = new(Decision)
		rl.fillRLocked(w.why, &of.Denied, of.By.Items, rl.nowLocked())
	}
	rl.mu.Unlock()
	rl.teller.queued(by, w)
}

// served ends a wait as the log says.
func (s *shared) served(w *waiter, options []engine.Option, o *replica.Outcome) {
	rl := s.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	end := engine.Ended{Served: -1, Kind: lines.Closed}
	if len(o.Ended) > 0 {
		end = o.Ended[0]
	}
	switch {
	case end.Served >= 0 && w.charges:
		w.reservations = s.madeLocked(&options[end.Served], end.Calls, o.Alone, now)
	case end.Served < 0 && end.Kind == lines.Late && (end.Verdict.Allowed || end.Verdict.Code == ""): // it is too late for whatever
		w.err = context.DeadlineExceeded
	case end.Served < 0:
		of := &lines.Candidate{Verdict: end.Verdict, Items: s.itemsLocked(&options[max(end.Of, 0)], now)}
		if at := end.Verdict.Item; end.Verdict.Code == string(DecisionUnknownModel) && at < len(of.Items) {
			of.Verdict.Reason += of.Items[at].Nearest
		}
		w.err = w.refusalLocked(&lines.Refusal{Kind: end.Kind, Of: of}, now)
	}
}
