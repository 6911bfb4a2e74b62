package engine

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/external"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// moveReports moves cooldowns, and what others use, to the names under which their models are
// counted now. Usage stays where it was charged.
func (e *Engine) moveReports(rename func(name string) string, now account.Now) {
	for _, name := range slices.Sorted(maps.Keys(e.accounts)) {
		a := e.accounts[name]
		if a.CoolUntil == 0 && a.Reports == nil || state.IsPool(name) {
			continue
		}
		to := rename(name)
		if to == name {
			continue
		}
		is := e.need(to)
		if a.CoolUntil > is.CoolUntil {
			is.Cool(a.CoolUntil, a.CoolCause)
		}
		is.Report(joined(is.Reports, a.Reports))
		a.Cool(0, "")
		a.Report(nil)
		e.drop(a, now)
	}
}

// joined returns the more of two reports, in each dimension. Either may be nil.
func joined(a, b *external.Usage) *external.Usage {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	more := *a
	for of := range more {
		if b[of].Amount > more[of].Amount {
			more[of] = b[of]
		}
	}
	return &more
}
