package ratelimit

import (
	"io"
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/yamlstate"
)

// persistYAML writes the state file.
func (s *storage) persistYAML(rl *RateLimiter) error {
	if s.path == "" {
		return errNoFile
	}
	save, replace := newSaving(rl), fsx.Replace
	defer save.done()
	snapshot := save.snapshot()
	if s.suspect {
		replace = fsx.ReplaceKeepingOld
	}
	err := replace(s.path, func(w io.Writer) error {
		return yamlstate.Encode(w, snapshot, time.Now())
	})
	if err == nil {
		s.suspect, s.spent = false, snapshot.Spend
	}
	return err
}

// loadYAML reads the state file; nil where there is none.
func (s *storage) loadYAML() (*state.Snapshot, error) {
	if s.path == "" {
		return nil, errNoFile
	}
	loaded, err := yamlstate.ReadFile(s.path)
	s.suspect = err != nil
	return loaded, err
}

// snapshot notes what is to be stored. Other calls wait for a copy of the slices' ends alone,
// and room for those is made before the lock is taken.
func (s saving) snapshot() *state.Snapshot {
	type entry struct {
		model string
		stats UsageStats
	}
	rl := s.rl
	rl.mu.RLock()
	room := len(rl.State)
	rl.mu.RUnlock()
	entries := ring.Room[entry](room + room/8)
	snapshot := &state.Snapshot{Answers: rl.answers.All(), Found: s.founds(), Spend: s.spends()}
	snapshot.Quotas, snapshot.Said, _ = s.quotas()
	maps.DeleteFunc(snapshot.Quotas, func(model string, q state.Quota) bool {
		said := snapshot.Said[model]
		return q.Validate(model) != nil || said.Validate(model) != nil // a Load would not accept it
	})
	snapshot.Pools = s.pools()
	s.consistently(func(cooldowns map[string]state.Cooldown) {
		entries, snapshot.Cooldowns = entries[:0], cooldowns
		rl.walk(func(model string, stats *UsageStats, instant int64, _ time.Time) {
			if stats == nil {
				return
			}
			if stats.window.mirrors(stats, rl) {
				stats.window.followQuotaLocked(model, instant)
				stats.window.pin(s.pinned)
				stats.window.noteSavedLocked()
			}
			entry := entry{model, *stats}
			entry.stats.window = nil
			entries = append(entries, entry)
		})
	})
	snapshot.Usage = make(map[string]*state.Usage, len(entries))
	for i := range entries {
		snapshot.Usage[entries[i].model] = entries[i].stats.usage()
	}
	return snapshot
}
