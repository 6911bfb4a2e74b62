package instruments

import (
	"slices"
	"strings"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Beginning is what the counters of a model or a pool begin with, at zero: a rate sees nothing of
// the first refusal if that makes the counter. Only refusals that a limit can cause are in it,
// because each of them is a series that every collection tells.
type Beginning struct {
	Key
	Pool   string   // empty for a model
	Priced bool     // calls of the model have a price, so its spend is counted
	Codes  []string // of refusals by the limits of the model and its pools, or by those of the pool
}

// Begin calls yield with the beginning of each model that has a series of its own, and of each such
// pool.
func Begin(rl *ratelimit.RateLimiter, holds Holds, yield func(*Beginning)) {
	for model := range rl.Models() {
		e := rl.Explain(model)
		b := Beginning{Key: holds.Model(KeyOf(e.Counted, e.Provider))}
		if b.Key == Other {
			continue
		}
		_, b.Priced = rl.PriceOf(model)
		b.codes(e.Limits, e.Found, e.Budgets)
		for i := range e.Pools {
			b.codes(e.Pools[i].Limits, e.Pools[i].Found, e.Pools[i].Budgets)
		}
		yield(&b)
	}
	for name := range rl.Pools() {
		b := Beginning{Pool: holds.Pool(short(name))}
		if is, ok := rl.ExplainPool(name); ok && b.Pool != OtherName {
			b.codes(is.Limits, is.Found, is.Budgets)
			yield(&b)
		}
	}
}

func (b *Beginning) codes(limits []ratelimit.LimitState, found *ratelimit.FoundLimits, budgets []ratelimit.BudgetState) {
	for i := range limits {
		b.code(ratelimit.DecisionCode(strings.TrimPrefix(limits[i].Limit, "max_") + "_exceeded"))
	}
	if found != nil && found.RPM > 0 {
		b.code(ratelimit.DecisionRPMLimit)
	}
	if found != nil && found.InFlight > 0 {
		b.code(ratelimit.DecisionInFlightLimit)
	}
	for i := range budgets {
		if budgets[i].Max > 0 {
			b.code(ratelimit.DecisionSpendLimit)
		}
	}
}

func (b *Beginning) code(code ratelimit.DecisionCode) {
	if !slices.Contains(b.Codes, string(code)) {
		b.Codes = append(b.Codes, string(code))
	}
}
