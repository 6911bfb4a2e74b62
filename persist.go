package ratelimit

import (
	"fmt"
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

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
	if shared, err := rl.ledger.flush(); shared {
		if err != nil {
			return fmt.Errorf("persist: %w", err)
		}
		return nil
	}
	rl.saver.begin()
	if rl.sqlite != nil {
		err = rl.persistSQLite()
	} else {
		err = rl.persistYAML()
	}
	rl.saver.end(err)
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
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
	if shared, err := rl.ledger.flush(); shared {
		return err
	}
	if rl.sqlite != nil {
		return rl.loadSQLite()
	}
	loaded, err := rl.loadYAML()
	if err != nil || loaded == nil {
		return err
	}
	rl.replace(rl.indexLoaded(loaded), loaded.Cooldowns)
	return nil
}

// indexLoaded takes over the quotas that were loaded, and returns the usage, indexed: before
// the lock is taken, so that no other call waits for that.
func (rl *RateLimiter) indexLoaded(loaded *state.Snapshot) map[string]*UsageStats {
	rl.mergeFile(loaded.Quotas)
	zones := rl.zonesOf(loaded.Usage)
	instant, now := rl.present()
	all := make(map[string]*UsageStats, len(loaded.Usage))
	for model, u := range loaded.Usage {
		all[model] = statsOf(u)
		rl.newWindow(all[model], zones[model], instant, now)
	}
	return all
}

// present returns the present instant, and what the clocks show.
func (rl *RateLimiter) present() (instant int64, now time.Time) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	instant = rl.clock.Sync()
	return instant, rl.clock.At(instant)
}

// replace takes over the cooldowns and the usage that were loaded, and indexed.
func (rl *RateLimiter) replace(usage map[string]*UsageStats, cooldowns map[string]time.Time) {
	_, now := rl.present()
	rl.mergeCooldowns(cooldowns, now)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.State = usage
	rl.external = nil
	rl.era++
	rl.guests = guests{}
	for name, g := range rl.gates {
		if stats := rl.State[name]; stats != nil {
			rl.joinLocked(name, stats.window)
		} else {
			g.leftLocked()
		}
	}
	rl.requoteLocked()
}

// zonesOf returns the zones of the models' days, where they have one.
func (rl *RateLimiter) zonesOf(usage map[string]*state.Usage) map[string]string {
	zones := make(map[string]string)
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	n := 0
	for model := range usage {
		if zone := zoneOf(model, rl.Quotas); zone != "" {
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
		rl.cooldowns.raise(model, until, now)
		turn.nextLocked()
	}
}

// resetSince reports whether all models were reset since an era. While ioMu is held,
// no Load can have begun another one.
func (rl *RateLimiter) resetSince(era int) bool {
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	return rl.era != era
}

// validQuotas copies the quotas that a file may hold.
func (rl *RateLimiter) validQuotas() map[string]state.Quota {
	rl.mu.RLock()
	quotas := storedQuotas(rl.provenance.stored(rl.Quotas))
	rl.mu.RUnlock()
	maps.DeleteFunc(quotas, func(model string, quota state.Quota) bool {
		return quota.Validate(model) != nil
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
