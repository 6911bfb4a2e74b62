package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/observation"
)

// Tell has the search for the rate of an account end where its provider reports its limits of the
// minute. It reports whether that is news. Observe follows, which serves those that wait: no more of
// them may go than are left.
func (e *Engine) Tell(t *Target, report *observation.Limits, now account.Now) bool {
	now = e.begin(now, 0)
	a := t.Account
	if !a.Has(account.Adapts) || !a.Found.SeeksRate() || !report.SaysMinute() || a.Found.IsTold() {
		return false
	}
	if a.Name == "" {
		a = e.need(t.Counted)
	}
	a.Found.Limits(now).Tell(true)
	e.lines.Mark(a)
	return true
}

// ForgetTold has the rates of all accounts be searched for again, whatever their providers say.
func (e *Engine) ForgetTold() {
	for _, a := range e.accounts {
		a.Found.ForgetTold()
	}
}
