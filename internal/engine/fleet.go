package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Withhold keeps shares of all limits for processes that may still use them. It replaces those that
// were kept before. Serve follows. The image does not tell what is kept, nor who sleeps.
func (e *Engine) Withhold(shares []account.Reserve) { e.withheld = shares }

// held is what is kept of the limits: for processes first, then for classes.
func (e *Engine) held() []account.Reserve {
	if len(e.withheld) == 0 {
		return e.reserves
	}
	return append(e.withheld[:len(e.withheld):len(e.withheld)], e.reserves...)
}

// Sleep has the waiters of a process keep their places and be passed over, or wakes them.
// Serve follows.
func (e *Engine) Sleep(process int64, sleeps bool) { e.lines.Sleep(process, sleeps) }

// DueOf is Due for what is a process's, calls that expire and waiters, as far as that is before an
// instant; else it returns that.
func (e *Engine) DueOf(process, before int64) int64 {
	expires := func(c *account.Call) int64 { return c.HoldUntil }
	before = lines.DueOf(e.holds, before, expires, func(c *account.Call) bool { return c.ID.Process == process })
	return e.lines.DueOf(process, before)
}

// Itemize returns what requests ask of each account. It changes nothing.
func (e *Engine) Itemize(by *By, reqs []Request, now account.Now) []verdict.Item {
	return e.itemize(nil, by, reqs, now)
}

// Of returns the numbers of the open calls of a process, in the order of their admission, and those
// of its waiters, in the order of their arrival.
func (e *Engine) Of(process int64) (calls, waiters []account.ID) {
	for c := range e.Open {
		if c.ID.Process == process {
			calls = append(calls, c.ID)
		}
	}
	for _, w := range e.Waiters() {
		if w.ID.Process == process {
			waiters = append(waiters, w.ID)
		}
	}
	return calls, waiters
}

// Waiters returns those that wait, in the order of their arrival.
func (e *Engine) Waiters() []*lines.Waiter { return e.lines.Waiters() }

// Named returns how many open calls and waiters there are that commands have made.
func (e *Engine) Named() (calls, waiters int) { return len(e.open.byID), len(e.waiters) }

// Look serves those that may pass after Withhold or Sleep has changed something.
func (e *Engine) Look(anywhere bool, now account.Now) {
	if anywhere {
		e.Serve(now)
		return
	}
	e.lines.Serve(e.begin(now, 0))
}
