package ratelimit

import (
	"maps"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// saving is a Persist under way. It copies no entries: they stay where and as they are until done
// is called.
type saving struct {
	rl     *RateLimiter
	pinned *atomic.Bool // as long as it is true the entries are left where and as they are
}

func newSaving(rl *RateLimiter) saving {
	s := saving{rl, new(atomic.Bool)}
	s.pinned.Store(true)
	return s
}

func (s saving) done() { s.pinned.Store(false) }

// consistently visits State by way of visit, which gets the cooldowns, and once more if all
// models were reset meanwhile: the file must have everything from before the reset or nothing.
// With few models that cannot happen. While storage.mu is held, no Load replaces State.
func (s saving) consistently(visit func(cooldowns map[string]time.Time)) {
	version := s.stateVersion()
	visit(s.cooldowns())
	if s.stateVersion() != version {
		visit(s.cooldowns())
	}
}

func (s saving) stateVersion() int {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.era
}

// quotas copies the quotas that a file may hold.
func (s saving) quotas() map[string]state.Quota {
	rl := s.rl
	rl.mu.RLock()
	quotas := storedQuotas(rl.provenance.stored(rl.Quotas))
	rl.mu.RUnlock()
	maps.DeleteFunc(quotas, func(model string, quota state.Quota) bool {
		return quota.Validate(model) != nil
	})
	return quotas
}

// cooldowns copies the lasting cooldowns.
func (s saving) cooldowns() map[string]time.Time {
	rl := s.rl
	rl.mu.RLock()
	cooldowns := maps.Clone(rl.cooldowns)
	rl.mu.RUnlock()
	now := time.Now()
	maps.DeleteFunc(cooldowns, func(_ string, until time.Time) bool { return !until.After(now) })
	return cooldowns
}
