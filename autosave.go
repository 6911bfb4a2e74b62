package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/chores"
)

// AutoPersist says when the limiter writes its state file by itself. The zero value is off.
type AutoPersist struct {
	// Delay is the time from the last change to the write. Zero turns AutoPersist off, whatever
	// MaxWait is; it must not be negative.
	Delay time.Duration `yaml:"delay,omitempty"`
	// MaxWait is the longest time that a change stays unwritten while more keep coming. Zero is
	// ten times Delay; otherwise it must be at least Delay.
	MaxWait time.Duration `yaml:"max_wait,omitempty"`
}

// startSaver loads the state, and saves changes from then on.
func (rl *RateLimiter) startSaver(when AutoPersist) error {
	if when.Delay == 0 {
		return nil
	}
	if err := rl.Load(); err != nil {
		return err
	}
	s := chores.NewSaver(chores.SaverOptions{
		Delay: when.Delay, MaxWait: when.MaxWait, Report: rl.reporter.Report,
		Storage: &rl.storage.mu, Save: func() error { return rl.storage.save(rl) },
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.saver, rl.nextSaveAt = s, math.MinInt64
	return nil
}

// changedLocked notes an unsaved change, as of an instant.
func (rl *RateLimiter) changedLocked(instant int64) {
	if instant >= rl.nextSaveAt {
		rl.tellSaverLocked(instant)
	}
}

// tellSaverLocked is apart from changedLocked so that the compiler can inline that, which it
// cannot where it inlines this one.
//
//go:noinline
func (rl *RateLimiter) tellSaverLocked(instant int64) {
	rl.nextSaveAt = account.Never
	if rl.saver != nil {
		rl.nextSaveAt = instant + int64(rl.saver.Changed())
	}
}

// changedNowLocked is changedLocked for callers that have not read the clock.
func (rl *RateLimiter) changedNowLocked() {
	if rl.saver != nil {
		rl.changedLocked(rl.clock.Sync())
	}
}
