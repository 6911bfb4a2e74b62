package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/replica"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// reserving is a Reserve or a ReserveAll: what is known here, what is asked, and what the log says.
// What a single request needs is in it.
type reserving struct {
	s      *shared
	by     caller
	reqs   []Request
	option engine.Option
	d      Decision
	made   Reservations
	e      *telling
	heard  bool // the log has decided

	single struct {
		req   [1]Request
		asked [1]engine.Request
		want  [1]engine.Want
	}
}

var reservings = sync.Pool{New: func() any { return new(reserving) }}

// reserveOne is reserve for one request.
func (s *shared) reserveOne(by *caller, req *Request, d *Decision) (made *Reservation) {
	is := reservings.Get().(*reserving)
	is.s, is.by, is.single.req[0] = s, *by, *req
	is.reqs = is.single.req[:]
	is.reserve()
	if *d = is.d; len(is.made) > 0 {
		made = is.made[0]
	}
	if is.heard { // so nobody else refers to it any more
		*is = reserving{}
		reservings.Put(is)
	}
	return made
}

// reserve reserves. What does not pass by what the log says now is not sent.
func (is *reserving) reserve() {
	s, rl := is.s, is.s.rl
	is.option.Requests = is.single.asked[:0]
	ctx := is.by.ctx
	if ctx.Err() != nil && !is.by.request { // ReserveContext succeeds all the same
		ctx = background
	}
	ok := s.judge(&is.option, &is.by, is.reqs, &is.d)
	if !ok {
		s.replica.Fresh(ctx, 0)
		ok = s.judge(&is.option, &is.by, is.reqs, &is.d)
	}
	if ok && len(is.reqs) > 0 {
		wants := engine.WantsOf(is.single.want[:0], is.option.Requests)
		err := s.replica.DoOwn(ctx, engine.Admit{By: is.option.By, Wants: wants}, is)
		if ok = err == nil; !ok {
			is.d = undecided(err, is.d.Stats)
		}
	} else if ok {
		is.made = Reservations{}
	}
	if !ok {
		rl.mu.Lock()
		is.toldLocked(s.now())
		rl.mu.Unlock()
	}
	rl.teller.tell(is.e)
	is.made.watch()
}

// Hear implements replica.Owner, with the lock held.
func (is *reserving) Hear(o *engine.Outcome, alone bool) {
	if is.heard = o != nil && !alone; o == nil {
		is.undoLocked()
		return
	}
	now := is.s.now()
	is.decidedLocked(o, alone, now)
	is.toldLocked(now)
}

// decidedLocked makes the decision what the log has decided, and the reservations.
func (is *reserving) decidedLocked(o *engine.Outcome, alone bool, now account.Now) {
	s, d := is.s, &is.d
	if *d = (Decision{Stats: d.Stats}); !alone { // what was known here may be old
		d.Stats = s.before
	}
	v := o.Verdict
	if v.Allowed {
		d.explain(&v, nil)
		is.made = s.madeLocked(&is.option, o.Calls, alone, now)
		if is.by.request {
			s.endWithLocked(is.by.ctx, is.made)
		}
		return
	}
	items := s.itemsLocked(&is.option, now)
	s.rl.hintLocked(&v, items)
	if of := d.explain(&v, items); len(is.reqs) > 1 {
		d.Stats = ModelStats{}
		d.Stats.count(of.Account, s.rl.span(), now)
	}
}

// toldLocked notes the decision, and the events that tell of it.
func (is *reserving) toldLocked(now account.Now) {
	if d := &is.d; len(is.reqs) == 1 {
		d.Model = is.reqs[0].Model
	} else if d.Allowed {
		d.Model, d.Stats = "", ModelStats{}
	}
	is.e = is.e.then(is.s.rl.reservedLocked(&is.by, is.made, &is.d, is.reqs, now))
}

// undoLocked ends calls that were admitted so late that nobody hears of it, by an event neither.
func (is *reserving) undoLocked() {
	for _, r := range is.made {
		if c := r.liveRLocked(); c != nil { // else Close tells of its end
			is.e.each(func(e *telling) {
				is.s.rl.teller.drop(e)
				is.s.rl.teller.outlet.End()
			})
			is.s.rl.ledger.Ended(audited{is.s.rl}, c, account.Cancelled, c.Tokens)
			is.e, r.call, c.Local = nil, nil, nil
			is.s.overLocked(c)
		}
	}
	is.made = nil
}

// decideAlone decides on a request while the store is away, by the share of this process.
func (s *shared) decideAlone(d *Decision, req *Request) {
	var option engine.Option
	if !s.judge(&option, &caller{asking: asking{class: req.Class}}, []Request{*req}, d) {
		return
	}
	v, ok := s.replica.Judge(&option.By, engine.WantsOf(nil, option.Requests))
	if !ok || v.Allowed {
		return
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	now := s.rl.nowLocked()
	d.follow(&v, s.itemsLocked(&option, now), s.rl.span(), now)
}

// judge decides on requests by what is known here, and reports whether to ask for them, as the
// option has them then.
func (s *shared) judge(option *engine.Option, by *caller, reqs []Request, d *Decision) (ok bool) {
	rl := s.rl
	*d = Decision{}
	if len(reqs) == 1 {
		if ok, sure := s.judgeOne(option, by, &reqs[0], d); sure {
			return ok
		}
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, asked := rl.enterAllLocked(reqs)
	option.By, option.Requests = rl.by(by.asking), asked
	if why := s.shutRLocked(); why != nil {
		*d = undecided(why, ModelStats{})
		return false
	}
	return s.judgeRLocked(option, d, now)
}

// judgeOne is judge for one request, beside others that look; sure is false where judge has to
// change something first.
func (s *shared) judgeOne(option *engine.Option, by *caller, req *Request, d *Decision) (ok, sure bool) {
	rl := s.rl
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	asked := append(option.Requests[:0], engine.Request{})
	now, sure := rl.lookRLocked(req.Model, &asked[0].Target)
	if !sure {
		return false, false
	}
	rl.askForRLocked(&asked[0], req, now)
	option.By, option.Requests = rl.by(by.asking), asked
	return s.judgeRLocked(option, d, now), true
}

func (s *shared) judgeRLocked(option *engine.Option, d *Decision, now account.Now) (ok bool) {
	items, v := s.rl.engine.Judge(nil, &option.By, option.Requests, now)
	of := d.explain(&v, items)
	if len(option.Requests) == 1 {
		d.Stats.count(option.Requests[0].Account, s.rl.span(), now)
	} else if of != nil {
		d.Stats.count(of.Account, s.rl.span(), now)
	}
	// Room is kept for a class with a reserve while it asks, so all have to hear of that.
	return v.Allowed || !v.Never && s.rl.engine.Due() <= now.Instant || s.rl.engine.HasReserve(option.By.Class)
}

// itemsLocked returns what the accounts of requests are now: those of a verdict in the log are not
// kept, and it names no nearest model.
func (s *shared) itemsLocked(o *engine.Option, now account.Now) []verdict.Item {
	for i := range o.Requests {
		r := &o.Requests[i]
		r.Target, r.Nearest = s.rl.engine.Resolve(r.Counted, r.Asked), ""
	}
	return s.rl.engine.Itemize(&o.By, o.Requests, now)
}

// madeLocked returns the reservations of calls that were admitted together. alone says that the
// engine does not know them yet.
func (s *shared) madeLocked(o *engine.Option, ids []account.ID, alone bool, now account.Now) Reservations {
	rl := s.rl
	rs := make(Reservations, 0, len(ids))
	for i, id := range ids {
		r := &o.Requests[i]
		c := &account.Call{ID: id, Asked: r.Asked, Class: o.By.Class, Tokens: r.Tokens.Clamp(), Most: r.Most, At: now}
		is := rl.engine.Call(id)
		switch {
		case is != nil:
			c.At = is.At
			c.NameAs(is)
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
		rl.refusals.use(r.Counted, rl.Quotas).admitted(now)
		rs = append(rs, rl.reservationLocked(c))
	}
	return rs
}

// wait is RateLimiter.wait: the line is that of all processes.
func (s *shared) wait(ctx context.Context, by *caller, w *waiter) (Reservations, error) {
	if len(w.requests) == 0 {
		return Reservations{}, nil
	}
	rl := s.rl
	began := rl.teller.now()
	c, closed := s.enter(ctx, by, w)
	if closed {
		return nil, fmt.Errorf("%s: %w", w.op, ErrClosed)
	}
	o, err := s.replica.Wait(ctx, c, func(n int64) { s.lined(by, w, n) })
	rl.mu.Lock()
	delete(s.waiting, w)
	rl.mu.Unlock()
	if by.queued {
		by.waited = time.Since(began)
	}
	if err == nil && ctx.Err() == nil {
		s.served(w, &o, notice.CallFrom(ctx))
		if w.err == nil {
			rl.teller.served(by, w)
		}
		w.reservations.watch()
		return w.reservations, w.err
	}
	for _, end := range o.Ended { // it was served in the moment in which its context ended
		for _, id := range end.Calls {
			s.replica.Tell(engine.Settle{ID: id, How: account.Cancelled})
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, replica.ErrClosed):
		return nil, fmt.Errorf("%s: %w", w.op, ErrClosed)
	}
	d := undecided(err, ModelStats{})
	if d.Never {
		err = ErrNeverFits
	}
	return nil, &LimitError{Model: w.requests[0].Model, Decision: d, Err: err, op: w.op}
}

// enter returns the command of a waiter.
func (s *shared) enter(ctx context.Context, by *caller, w *waiter) (c engine.Enter, closed bool) {
	rl := s.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	w.rl = rl
	by.asking = askingOf(ctx, w.requests)
	now, asked := rl.enterAllLocked(w.requests)
	w.options = w.optionsLocked(by, asked)
	c = engine.Enter{By: w.options[0].By, Deadline: account.Never, OnlyRoom: !w.charges}
	if deadline, ok := ctx.Deadline(); ok {
		c.Deadline = max(now.Instant+int64(min(time.Until(deadline), 1<<61)), 0)
	}
	if w.patience > 0 {
		c.Patient = now.Instant + int64(w.patience)
	}
	for i := range w.options {
		c.Options = append(c.Options, engine.WantsOf(nil, w.options[i].Requests))
		if i > 0 {
			c.Others = append(c.Others, engine.InLine{Class: w.options[i].By.Class, Flow: w.options[i].By.Flow})
		}
	}
	return c, rl.closed
}

// repricedLocked returns at which prices the waiter of a number in line asks now. changed says that
// it did not before.
func (w *waiter) repricedLocked(n int64) (is engine.Repriced, changed bool) {
	is.N = n
	for i := range w.options {
		changed = w.priceLocked(w.options[i].Requests) || changed
		for _, r := range w.options[i].Requests {
			is.Prices = append(is.Prices, engine.Price{Most: r.Most, Known: r.Priced})
		}
	}
	return is, changed
}

// repriceLocked has the waiters in line ask at the present prices, in the order of their numbers.
func (s *shared) repriceLocked() {
	var all []engine.Repriced
	for w := range s.waiting {
		if is, changed := w.repricedLocked(s.waiting[w]); changed {
			all = append(all, is)
		}
	}
	for c := range engine.Reprices(all) {
		s.putLocked(c)
	}
}

// lined tells that a waiter stands in line.
func (s *shared) lined(by *caller, w *waiter, n int64) {
	rl := s.rl
	defer s.send()
	rl.mu.Lock()
	anew := s.waiting[w] != 0 // at the prices of the first time
	if s.waiting[w] = n; rl.pricing != nil {
		if is, changed := w.repricedLocked(n); changed || anew {
			s.putLocked(engine.Reprice{Waiters: []engine.Repriced{is}})
		}
	}
	tells := rl.teller != nil && !by.queued
	if of := rl.engine.Waiter(s.process, n); tells && of != nil && of.By != nil {
		w.why = new(Decision)
		w.why.follow(&of.Denied, of.By.Items, rl.span(), rl.nowLocked())
	}
	rl.mu.Unlock()
	if tells {
		rl.teller.queued(by, w)
	}
}

// served ends a wait as the log says.
func (s *shared) served(w *waiter, o *replica.Outcome, of *notice.CallContext) {
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
		w.reservations = s.madeLocked(&w.options[end.Served], end.Calls, o.Alone, now)
		if of != nil {
			s.endWithLocked(of.Context, w.reservations)
		}
	case end.Served < 0 && end.Kind == lines.Late && (end.Verdict.Allowed || end.Verdict.Code == ""): // it is too late for whatever
		w.err = context.DeadlineExceeded
	case end.Served < 0:
		of := &lines.Candidate{Verdict: end.Verdict, Items: s.itemsLocked(&w.options[max(end.Of, 0)], now)}
		w.err = w.refusalLocked(&lines.Refusal{Kind: end.Kind, Of: of}, now)
	}
}
