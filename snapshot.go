package ratelimit

import (
	"time"

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

// stored returns the snapshot as stores see it. It shares the slices.
func (s *snapshot) stored() *state.Snapshot {
	is := state.NewSnapshot()
	is.Quotas = storedQuotas(s.quotas)
	for model, stats := range s.state {
		is.Usage[model] = stats.usage()
	}
	is.Cooldowns = s.cooldowns
	return is
}

// storedQuotas returns quotas as stores see them.
func storedQuotas(quotas map[string]ModelQuota) map[string]state.Quota {
	stored := make(map[string]state.Quota, len(quotas))
	for model, q := range quotas {
		stored[model] = state.Quota(q)
	}
	return stored
}

// snapshotOf returns what was read.
func snapshotOf(is *state.Snapshot) *snapshot {
	s := newSnapshot()
	for model, q := range is.Quotas {
		s.quotas[model] = ModelQuota(q)
	}
	for model, u := range is.Usage {
		s.state[model] = statsOf(u)
	}
	s.cooldowns = is.Cooldowns
	return s
}

func newSnapshot() *snapshot {
	return &snapshot{
		quotas:    make(map[string]ModelQuota),
		state:     make(map[string]*UsageStats),
		cooldowns: make(map[string]time.Time),
	}
}
