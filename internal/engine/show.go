package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
)

// WaitingByClass returns how many wait for an account, of each class of which some do; nil where
// nobody waits, or there are no classes.
func (e *Engine) WaitingByClass(a *account.Account) map[string]int { return e.lines.WaitingByClass(a) }

// FirstInLine returns those who wait for an account, and no more than so many: the one that is
// served next, where one is, and then the others in the order of their arrival.
func (e *Engine) FirstInLine(a *account.Account, most int) []*lines.Candidate {
	return e.lines.First(a, most)
}
