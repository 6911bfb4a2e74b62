package ratelimit

import (
	"fmt"
	"maps"
	"time"
)

// snapshot is quotas and usage as they are stored, apart from any limiter.
type snapshot struct {
	quotas map[string]ModelQuota
	state  map[string]*UsageStats
}

// Persist writes quotas and usage to the state file. It holds up other calls
// only while it copies them, never while it writes. Concurrent calls take turns.
// A quota with a negative limit is left out, because no Load would accept it.
//
// With YAML the file is replaced as a whole: a crash leaves the old or the new
// one, and another process's is written over. A file that Load could not read is
// first moved aside, to its name followed by ".corrupt-" and the time.
//
// With SQLite only what is new is written, and what other processes wrote since
// this limiter's last Load or Persist is kept, day counts included. On a closed
// limiter it returns ErrClosed.
//
// It is safe for concurrent use.
func (rl *RateLimiter) Persist() error {
	rl.ioMu.Lock()
	defer rl.ioMu.Unlock()
	var err error
	if rl.sqlite != nil {
		err = rl.sqlite.persist(rl)
	} else {
		err = rl.persistYAML()
	}
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	return nil
}

// Load reads the state file. The usage in memory is replaced by the file's. For
// quotas, what the program said itself (Config.Quotas, SetQuota) wins over the
// file, and the file over default profiles. A missing file changes nothing and
// is no error. Whoever waits in WaitForCapacity looks again at once.
//
// A file that cannot be read for what it should be is an error that wraps
// ErrCorruptState and names the field and its value, and for a limit that is no
// integer of zero or more also ErrInvalidQuota; limiter and file stay as they were. With SQLite, on a
// closed limiter, it returns ErrClosed.
//
// It is safe for concurrent use.
func (rl *RateLimiter) Load() error {
	rl.ioMu.Lock()
	defer rl.ioMu.Unlock()
	if err := rl.load(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

func (rl *RateLimiter) load() error {
	if rl.sqlite != nil {
		loaded, synced, err := rl.sqlite.load()
		if err != nil {
			return err
		}
		rl.replace(loaded)
		rl.sqlite.remember(loaded, synced)
		return nil
	}
	loaded, err := loadYAML(rl.filePath)
	rl.suspect = err != nil
	if err != nil || loaded == nil {
		return err
	}
	rl.replace(loaded)
	return nil
}

// replace takes over what was loaded. The windows are made before the lock is
// taken, so that no other call waits for that.
func (rl *RateLimiter) replace(loaded *snapshot) {
	rl.mu.Lock()
	instant := rl.clock.sync()
	now := rl.clock.at(instant)
	rl.mu.Unlock()
	for _, stats := range loaded.state {
		newWindow(stats, now, instant, rl.span())
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.State = loaded.state
	rl.mergeFileLocked(loaded.quotas)
	rl.announceLocked()
}

// snapshot notes what is to be stored. It copies no entries: their storage is
// left alone until it has been written, and other calls wait for a copy of the
// slices' ends alone. Room for those is made before the lock is taken.
func (rl *RateLimiter) snapshot() *snapshot {
	type entry struct {
		model string
		stats UsageStats
	}
	rl.mu.RLock()
	room := len(rl.State)
	rl.mu.RUnlock()
	entries := moved[entry](nil, room+room/8)
	rl.walk(func(model string, stats *UsageStats, _ int64, _ time.Time) {
		if stats == nil {
			return
		}
		if stats.window.mirrors(stats) {
			stats.window.pin()
		}
		entries = append(entries, entry{model, UsageStats{
			Requests: stats.Requests,
			Tokens:   stats.Tokens,
			DayStart: stats.DayStart,
			DayCount: stats.DayCount,
		}})
	})
	s := &snapshot{quotas: rl.validQuotas(), state: make(map[string]*UsageStats, len(entries))}
	for i := range entries {
		s.state[entries[i].model] = &entries[i].stats
	}
	return s
}

// validQuotas copies the quotas that a file may hold.
func (rl *RateLimiter) validQuotas() map[string]ModelQuota {
	rl.mu.RLock()
	quotas := maps.Clone(rl.Quotas)
	rl.mu.RUnlock()
	maps.DeleteFunc(quotas, func(model string, quota ModelQuota) bool {
		return quota.validate(model) != nil
	})
	return quotas
}
