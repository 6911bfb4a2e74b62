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
func (s saving) consistently(visit func(cooldowns map[string]state.Cooldown)) {
	version := s.stateVersion()
	visit(s.cooldowns())
	if s.stateVersion() != version {
		visit(s.cooldowns())
	}
}

func (s saving) stateVersion() int {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.stateVersion
}

// quotas copies the quotas that a file may hold, with their origins, and which of them neither the
// program nor the account said.
func (s saving) quotas() (quotas map[string]state.Quota, said map[string]state.Said, supplied map[string]bool) {
	rl := s.rl
	rl.mu.RLock()
	quotas = storedQuotas(rl.Quotas)
	rl.addPoolQuotasRLocked(quotas)
	said, supplied = rl.provenance.Stored(quotas)
	rl.mu.RUnlock()
	return quotas, said, supplied
}

// founds copies what was found of the models' limits.
func (s saving) founds() map[string]state.Found {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.foundsRLocked(s.rl.clock.Now())
}

// cooldowns copies the lasting cooldowns.
func (s saving) cooldowns() map[string]state.Cooldown {
	rl := s.rl
	rl.mu.RLock()
	cooldowns := maps.Clone(rl.cooldowns)
	rl.mu.RUnlock()
	cooldowns.DropOver(time.Now())
	return cooldowns
}

// storedToken returns a token entry as stores see it.
func storedToken(e TokenEntry) state.Token { return state.Token(e) }

// usage returns the stats as stores see them. It shares their slices.
func (s *UsageStats) usage() *state.Usage {
	return &state.Usage{
		Requests: s.Requests, Tokens: state.TokenView[TokenEntry]{Entries: s.Tokens, Token: storedToken},
		DayStart: s.DayStart, DayCount: s.DayCount, DayTokens: s.DayTokens,
	}
}

// statsOf returns usage that was read as stats.
func statsOf(u *state.Usage) *UsageStats {
	s := &UsageStats{Requests: u.Requests, DayStart: u.DayStart, DayCount: u.DayCount, DayTokens: u.DayTokens}
	if n := u.TokenCount(); n > 0 {
		s.Tokens = make([]TokenEntry, n)
		for i := range s.Tokens {
			s.Tokens[i] = TokenEntry(u.Tokens.At(i))
		}
	}
	return s
}

// storedQuotas returns quotas as stores see them.
func storedQuotas(quotas map[string]ModelQuota) map[string]state.Quota {
	stored := make(map[string]state.Quota, len(quotas))
	for model, q := range quotas {
		stored[model] = state.Quota(q)
	}
	return stored
}
