package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// addSpend copies what was spent in the days and months of an account that last.
func addSpend(spent map[string]state.Spend, a *account.Account, wall int64) {
	if !a.Spend.IsOver(wall) {
		spent[a.Name] = a.Spend.Spend
	}
}

// loadSpend makes the spend that of a file, and adds what was spent since the last Load or Persist:
// no Load may forget money, as it forgets charges. Each account changes in one step.
func (s *storage) loadSpend(l loading) {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := chores.NewWorker(&rl.mu, &rl.clock)
	names := map[string]bool{state.OtherAccount: true}
	for name := range l.Spend {
		names[name] = true
	}
	for a := range rl.engine.Accounts {
		if a.Spend != nil {
			names[a.Name] = true
		}
		work.Next()
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s.loadSpendLocked(rl, name, l.Spend[name], rl.nowAtLocked(work.Instant))
		work.Next()
	}
	s.spent = l.Spend
}

// loadSpendLocked is loadSpend for one account.
func (s *storage) loadSpendLocked(rl *RateLimiter, name string, is state.Spend, now account.Now) {
	a, spent := rl.engine.Spender(name), make(map[string]state.Spend)
	if a != nil {
		addSpend(spent, a, now.Wall)
	}
	if !catalog.IsName(name) || is.IsOver(now.Wall) {
		is = state.Spend{}
	}
	if is != (state.Spend{}) || a != nil && a.Spend != nil {
		rl.engine.LoadSpend(name, is, state.SpendSince(spent, s.spent)[name], now)
	}
}
