package engine

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Use returns what is known of an account at a moment, and of its open calls, for a caller with a
// span. The account may stand for a model without having its name.
func (e *Engine) Use(a *account.Account, counted string, span int64, now account.Now) (verdict.Use, verdict.Open) {
	var open verdict.Open
	if a.InFlight > 0 {
		for c := range e.Calls {
			for i := range c.Charges {
				if charge := &c.Charges[i]; charge.Account() == a {
					open.Add(c, charge, span, now)
				}
			}
		}
	}
	_, origins := e.Catalog.Origins(counted)
	u := verdict.UseOf(a, &open, origins, span, now)
	u.WaitingByClass = e.lines.WaitingByClass(a)
	return u, open
}

// Line returns those who wait for a model, and no more than so many: the one that is served next,
// where one is, and then the others in the order of their arrival.
func (e *Engine) Line(a *account.Account, most int, now account.Now) (line []verdict.Waiter) {
	for _, c := range e.lines.First(a, most) {
		w := verdict.Waiter{Waited: time.Duration(max(now.Instant-c.Waiter.Since, 0)), Class: e.KnownClass(c.Class)}
		for _, r := range OptionOf(c).Requests {
			if r.Counted == a.Name {
				w.PromptTokens += r.Tokens.Input
				w.OutputTokens += r.Tokens.Output
			}
		}
		line = append(line, w)
	}
	return line
}
