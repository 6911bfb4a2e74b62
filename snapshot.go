package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// tokenEntries shows token entries to a store without copying them.
type tokenEntries []TokenEntry

func (l tokenEntries) Len() int             { return len(l) }
func (l tokenEntries) At(i int) state.Token { return state.Token(l[i]) }

// usage returns the stats as stores see them. It shares their slices.
func (s *UsageStats) usage() *state.Usage {
	return &state.Usage{
		Requests: s.Requests, Tokens: tokenEntries(s.Tokens),
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
