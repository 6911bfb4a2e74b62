package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
)

// Adopt has the account of a counted name count what a usage shows, which was made by hand: see
// account.Adopt. Serve follows.
func (e *Engine) Adopt(counted string, u *account.Usage, day account.Span, keeps func(*account.Charge) bool, now account.Now) {
	a := e.need(counted)
	a.Adopt(u, day, now, e.span, e.openOf(a), keeps)
	e.adopted(a)
}

// AdoptPrepared is Adopt for a usage whose entries were prepared: see account.AdoptPrepared.
func (e *Engine) AdoptPrepared(counted string, u *account.Usage, p *account.Prepared, day account.Span, keeps func(*account.Charge) bool, now account.Now) {
	a := e.need(counted)
	a.AdoptPrepared(u, p, day, now, e.span, e.openOf(a), keeps)
	e.adopted(a)
}

// openOf visits the open calls, some of which may have charged an account.
func (e *Engine) openOf(a *account.Account) func(func(*account.Call) bool) {
	if a.InFlight == 0 {
		return func(func(*account.Call) bool) {}
	}
	return e.Open
}

func (e *Engine) adopted(a *account.Account) {
	if !e.Catalog.IsListed(a.Name) {
		e.places.use(a)
	}
}

// Hide forgets the usage of a counted name, which is not shown any more.
func (e *Engine) Hide(counted string, now account.Now) {
	if a := e.accounts[counted]; a != nil {
		e.hide(a, false)
		e.drop(a, now)
	}
}

// Serve serves all that wait, after something that can make room anywhere.
func (e *Engine) Serve(now account.Now) {
	now = e.begin(now, 0)
	e.lines.Review(nil, now)
	e.lines.MarkAll()
	e.lines.Serve(now)
}

// Accounts visits all accounts, in any order. Accounts that come or go meanwhile may be missed.
func (e *Engine) Accounts(yield func(*account.Account) bool) {
	for _, a := range e.accounts {
		if !yield(a) {
			return
		}
	}
}

// HasDone reports whether Done has any.
func (e *Engine) HasDone() bool { return e.lines.HasDone() }

// Lose settles the call of a reservation that is garbage at its estimate, and serves nobody: that
// is left to the next verb.
func (e *Engine) Lose(c *account.Call) {
	e.end(c, &account.Ending{How: account.Lost, Now: e.last, Span: e.span})
	e.release(c)
}

// Remove forgets all of a pool that is none any more, but for its money and its calls in flight.
func (e *Engine) Remove(counted string, now account.Now) {
	if a := e.accounts[counted]; a != nil {
		a.Cool(0, "")
		a.Report(nil)
		e.hide(a, false)
		e.drop(a, now)
	}
}

// Queue visits what those that wait ask for, in the order of their arrival.
func (e *Engine) Queue(yield func(*lines.Waiter, *Option) bool) {
	for _, w := range e.lines.Waiters() {
		for _, c := range w.Candidates {
			if !yield(w, OptionOf(c)) {
				return
			}
		}
	}
}

// Span returns the longest that a charge of the minute counted for any caller.
func (e *Engine) Span() int64 { return e.span }
