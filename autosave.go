package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/clock"
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
	rl.autosave = autosave{s, math.MinInt64}
	return nil
}

// autosave is what saves the state by itself. RateLimiter.mu guards it.
type autosave struct {
	saver  *chores.Saver // nil without Config.AutoPersist
	nextAt int64         // from this instant on it is told of changes
}

// changedLocked notes an unsaved change, as of an instant.
func (s *autosave) changedLocked(instant int64) {
	if instant >= s.nextAt {
		s.tellLocked(instant)
	}
}

// tellLocked is apart from changedLocked so that the compiler can inline that, which it cannot
// where it inlines this one.
//
//go:noinline
func (s *autosave) tellLocked(instant int64) {
	s.nextAt = account.Never
	if s.saver != nil {
		s.nextAt = instant + int64(s.saver.Changed())
	}
}

// changedNowLocked is changedLocked for callers that have not read the clock.
func (s *autosave) changedNowLocked(c *clock.Clock) {
	if s.saver != nil {
		s.changedLocked(c.Sync())
	}
}
