package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Option is what a call that waits may be served by.
type Option struct {
	By       By
	Requests []Request
}

// NewWaiter returns a waiter for the first of some options that passes, in the order of preference.
func NewWaiter(options ...Option) *lines.Waiter {
	w := &lines.Waiter{Deadline: account.Never, Charges: true}
	for i := range options {
		o := &options[i]
		w.Candidates = append(w.Candidates, &lines.Candidate{Asks: o, Class: o.By.Class, Flow: o.By.Flow})
		w.MaxQueue, w.HoldTTL = o.By.MaxQueue, o.By.HoldTTL
		w.ID = o.By.ID
	}
	return w
}

// OptionOf returns what a candidate asks for.
func OptionOf(c *lines.Candidate) *Option { return c.Asks.(*Option) }

// Enter serves a waiter at once, refuses it, or has it stand in line: see Done.
func (e *Engine) Enter(w *lines.Waiter, now account.Now) {
	now = e.begin(now, OptionOf(w.Candidates[0]).By.Span)
	for _, c := range w.Candidates { // who waits keeps the place of a model that has usage
		for i := range OptionOf(c).Requests {
			if a := OptionOf(c).Requests[i].Account; !a.Listed {
				e.hideEmpty(a, now)
			}
		}
	}
	e.lines.Enter(w, now)
	e.lines.Serve(now)
}

// Leave ends a wait. What the waiter was served meanwhile is cancelled.
func (e *Engine) Leave(w *lines.Waiter, now account.Now) {
	now = e.begin(now, 0)
	if !e.lines.Leave(w, now) {
		for _, c := range w.Calls {
			if !c.Ended {
				e.end(c, &account.Ending{How: account.Cancelled, Now: now, Span: e.span})
				e.release(c)
			}
		}
		w.Calls = nil
	}
	e.lines.Serve(now)
}

// Close refuses all that wait.
func (e *Engine) Close(now account.Now) { e.lines.Close(e.begin(now, 0)) }

// host is what the lines see of the engine.
type host struct{ *Engine }

// Decide decides on a candidate as if nobody waited.
func (e host) Decide(c *lines.Candidate, now account.Now) verdict.Verdict {
	o := OptionOf(c)
	if !c.InLine() { // one in line keeps its accounts until it is put there anew
		e.refresh(o)
	}
	e.see(c.Class, o.Requests, now)
	c.Items = e.itemize(c.Items[:0], &o.By, o.Requests, now)
	for i := range c.Items {
		c.Items[i].Ask.Patience = c.Patience(o.By.Span, now)
	}
	v := verdict.Judge(c.Items, e.held(), now)
	e.bound(c.Items, o.Requests, &v)
	return v
}

// refresh has the requests of an option stand for the accounts that there are by now.
func (e host) refresh(o *Option) {
	for i := range o.Requests {
		r := &o.Requests[i]
		r.Target = e.Resolve(r.Counted, r.Asked)
	}
}

// Join gives each model of a candidate that is about to stand in line an account of its own, in
// place of the blank one that several models share.
func (e host) Join(c *lines.Candidate, now account.Now) {
	o := OptionOf(c)
	for i := range o.Requests {
		r := &o.Requests[i]
		e.need(r.Counted)
		r.Target = e.Resolve(r.Counted, r.Asked)
	}
	codes := c.Items
	c.Items = e.itemize(nil, &o.By, o.Requests, now)
	for i := range min(len(codes), len(c.Items)) {
		c.Items[i].Code, c.Items[i].Never, c.Items[i].Wait, c.Items[i].Stays = codes[i].Code, codes[i].Never, codes[i].Wait, codes[i].Stays
	}
}

// Admit charges a candidate that passes.
func (e host) Admit(c *lines.Candidate, now account.Now) []*account.Call {
	o := OptionOf(c)
	return e.charge(nil, &o.By, o.Requests, now)
}

// IsHopeless reports whether a candidate cannot pass by its deadline.
func (e host) IsHopeless(c *lines.Candidate, now account.Now) bool {
	return c.Waiter.Deadline != account.Never && verdict.IsHopeless(c.Items, &c.Verdict, c.Waiter.Deadline, now)
}
