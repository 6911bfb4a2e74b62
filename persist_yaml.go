package ratelimit

import (
	"io"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/yamlstate"
)

// persistYAML writes the state file. ioMu must be held.
func (rl *RateLimiter) persistYAML() error {
	if rl.filePath == "" {
		return errNoFile
	}
	s, done := rl.snapshot()
	defer done()
	replace := fsx.Replace
	if rl.suspect {
		replace = fsx.ReplaceKeepingOld
	}
	err := replace(rl.filePath, func(w io.Writer) error {
		return yamlstate.Encode(w, s, time.Now())
	})
	if err == nil {
		rl.suspect = false
	}
	return err
}

// loadYAML reads the state file; nil where there is none. ioMu must be held.
func (rl *RateLimiter) loadYAML() (*state.Snapshot, error) {
	if rl.filePath == "" {
		return nil, errNoFile
	}
	s, err := yamlstate.ReadFile(rl.filePath)
	rl.suspect = err != nil
	return s, err
}

// snapshot notes what is to be stored. It copies no entries: until done is
// called their storage is left alone, and other calls wait for a copy of the
// slices' ends alone. Room for those is made before the lock is taken.
func (rl *RateLimiter) snapshot() (s *state.Snapshot, done func()) {
	type entry struct {
		model string
		stats UsageStats
	}
	rl.mu.RLock()
	room, era := len(rl.State), rl.era
	rl.mu.RUnlock()
	entries := ring.Room[entry](room + room/8)
	reading := new(atomic.Bool)
	reading.Store(true)
	note := func(model string, stats *UsageStats, instant int64, _ time.Time) {
		if stats == nil {
			return
		}
		if stats.window.mirrors(stats, rl) {
			rl.followQuotaLocked(model, stats, instant)
			stats.window.pin(reading)
		}
		entries = append(entries, entry{model, UsageStats{
			Requests:  stats.Requests,
			Tokens:    stats.Tokens,
			DayStart:  stats.DayStart,
			DayCount:  stats.DayCount,
			DayTokens: stats.DayTokens,
		}})
	}
	cooldowns := rl.liveCooldowns()
	rl.walk(note)
	// With very many models a Reset of all may come in the middle. The file must
	// have all of what was before or nothing.
	if rl.resetSince(era) {
		entries = entries[:0]
		cooldowns = rl.liveCooldowns()
		rl.walk(note)
	}
	s = &state.Snapshot{
		Quotas:    rl.validQuotas(),
		Usage:     make(map[string]*state.Usage, len(entries)),
		Cooldowns: cooldowns,
	}
	for i := range entries {
		s.Usage[entries[i].model] = entries[i].stats.usage()
	}
	return s, func() { reading.Store(false) }
}
