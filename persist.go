package ratelimit

import (
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
)

// snapshot is quotas, usage and cooldowns as they are stored, apart from any
// limiter.
type snapshot struct {
	quotas    map[string]ModelQuota
	state     map[string]*UsageStats
	cooldowns map[string]time.Time
}

// Persist writes quotas, usage and cooldowns to the state file. It holds up
// other calls only while it notes what there is, never while it writes, and with
// very many models lets them in between. Concurrent calls take turns.
// A quota with a negative limit or an unknown zone is left out, because no Load
// would accept it, and so is a cooldown that is over.
//
// With YAML the file is replaced as a whole: a crash leaves the old or the new
// one. What another process wrote there is overwritten. A file that Load could
// not read is first moved aside, to its name followed by ".corrupt-" and the time.
//
// With SQLite only what is new is written, and what other processes wrote since
// this limiter's last Load or Persist is kept, day counts included; of two
// cooldowns of a model the later stays. On a closed limiter it returns ErrClosed.
//
// With Config.Shared everything is in the file already. Persist then only makes sure of
// that, and returns why it is not; so does Load.
//
// It is safe for concurrent use.
func (rl *RateLimiter) Persist() error {
	rl.ioMu.Lock()
	defer rl.ioMu.Unlock()
	return rl.save()
}

// save is Persist; ioMu must be held.
func (rl *RateLimiter) save() (err error) {
	if rl.ledger != nil {
		if err := rl.ledger.flush(); err != nil {
			return fmt.Errorf("persist: %w", err)
		}
		return nil
	}
	rl.saver.begin()
	rl.beginSave()
	if rl.sqlite != nil {
		err = rl.sqlite.persist(rl)
	} else {
		err = rl.persistYAML()
	}
	rl.saver.end(err)
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	rl.endSave()
	return nil
}

// Load reads the state file. The usage in memory is replaced by the file's, so
// that charges which were not persisted are gone. For quotas, what the program
// said itself (Config.Quotas, SetQuota) wins over the file, and the file over
// default profiles. Of a model's cooldowns in memory and in the file, the later
// wins. A missing file changes nothing and is no error. Whoever waits is served at
// once.
//
// A file that cannot be read for what it should be is an error that wraps
// ErrCorruptState and names the field and its value, and for a limit that is no
// integer of zero or more, or a zone that is not known, also ErrInvalidQuota;
// limiter and file stay as they were. With SQLite, on a closed limiter, it
// returns ErrClosed. With Config.Shared it is as Persist.
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
	if rl.ledger != nil {
		return rl.ledger.flush()
	}
	if rl.sqlite != nil {
		loaded, synced, err := rl.sqlite.load()
		if err != nil {
			return err
		}
		rl.replace(loaded, true)
		rl.sqlite.remember(loaded, synced)
		return nil
	}
	loaded, err := loadYAML(rl.filePath)
	rl.suspect = err != nil
	if err != nil || loaded == nil {
		return err
	}
	rl.replace(loaded, false)
	return nil
}

// replace takes over what was loaded. The windows are made before the lock is
// taken, so that no other call waits for that. What comes from a database is
// stored there.
func (rl *RateLimiter) replace(loaded *snapshot, stored bool) {
	rl.mergeFile(loaded.quotas)
	zones := rl.zonesOf(loaded.state)
	rl.mu.Lock()
	instant := rl.clock.sync()
	now := rl.clock.at(instant)
	rl.mu.Unlock()
	for model, stats := range loaded.state {
		w := rl.newWindow(stats, zones[model], instant, now)
		if stored && !w.ahead {
			// The database still has times from the future, which would count anew
			// at every load: the next Persist replaces them.
			w.requests.StartStoredLog()
			w.tokens.StartStoredLog()
		}
	}
	rl.mergeCooldowns(loaded.cooldowns, now)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.State = loaded.state
	rl.held = nil
	rl.era++
	rl.guests = guests{}
	for name, g := range rl.gates {
		if stats := rl.State[name]; stats != nil {
			rl.joinLocked(name, stats.window)
			g.continueLocked(stats.window)
		} else {
			g.leftLocked()
		}
	}
	rl.requoteLocked()
}

// zonesOf returns the zones of the models' days, where they have one.
func (rl *RateLimiter) zonesOf(state map[string]*UsageStats) map[string]string {
	zones := make(map[string]string)
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	n := 0
	for model := range state {
		if zone := rl.zoneRLocked(model); zone != "" {
			zones[model] = zone
		}
		if n++; n%1024 == 0 { // let writers in, as names does
			rl.mu.RUnlock()
			rl.mu.RLock()
		}
	}
	return zones
}

// mergeCooldowns takes over the cooldowns of a file that are not over, where
// memory has none that is later: a program may persist and load in turns to see
// what others did, and must not lose one by that.
func (rl *RateLimiter) mergeCooldowns(cooldowns map[string]time.Time, now time.Time) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	turn := rl.takeTurnLocked()
	for model, until := range cooldowns {
		if until.After(now) && until.After(rl.cooldowns[model]) {
			rl.setCooldownLocked(model, until)
		}
		turn.nextLocked()
	}
}

// snapshot notes what is to be stored. It copies no entries: until done is
// called their storage is left alone, and other calls wait for a copy of the
// slices' ends alone. Room for those is made before the lock is taken.
func (rl *RateLimiter) snapshot() (s *snapshot, done func()) {
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
			rl.noteSavedLocked(stats.window)
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
	s = &snapshot{
		quotas:    rl.validQuotas(),
		state:     make(map[string]*UsageStats, len(entries)),
		cooldowns: cooldowns,
	}
	for i := range entries {
		s.state[entries[i].model] = &entries[i].stats
	}
	return s, func() { reading.Store(false) }
}

// resetSince reports whether all models were reset since an era. While ioMu is held,
// no Load can have begun another one.
func (rl *RateLimiter) resetSince(era int) bool {
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	return rl.era != era
}

// validQuotas copies the quotas that a file may hold.
func (rl *RateLimiter) validQuotas() map[string]ModelQuota {
	rl.mu.RLock()
	quotas := rl.storedQuotasRLocked()
	rl.mu.RUnlock()
	maps.DeleteFunc(quotas, func(model string, quota ModelQuota) bool {
		return quota.validate(model) != nil
	})
	return quotas
}

// liveCooldowns copies the cooldowns that are not over.
func (rl *RateLimiter) liveCooldowns() map[string]time.Time {
	rl.mu.RLock()
	cooldowns := maps.Clone(rl.cooldowns)
	rl.mu.RUnlock()
	now := time.Now()
	maps.DeleteFunc(cooldowns, func(_ string, until time.Time) bool { return !until.After(now) })
	return cooldowns
}
