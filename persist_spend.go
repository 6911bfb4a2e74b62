package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/spend"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// spends copies what was spent in the days and months that last.
func (s saving) spends() map[string]state.Spend {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.spends.All(s.rl.clock.UnixNano(s.rl.clock.Now()))
}

// loadSpend makes the spend that of a file, and adds what was spent since the last Load or Persist:
// no Load may forget money, as it forgets charges.
func (s *storage) loadSpend(l loading) {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	instant := rl.clock.Sync()
	wall := rl.clock.UnixNano(instant)
	since := spend.Since(rl.spends.All(wall), s.spent)
	rl.spends = nil
	for account, is := range l.Spend {
		if modelname.IsName(account) && !is.IsOver(wall) {
			rl.spends.Add(account, is)
			rl.rezoneSpendLocked(account, instant)
		}
	}
	for account, change := range since {
		rl.spends.Add(account, change)
	}
	s.spent = l.Spend
	rl.requoteLocked()
}
