package ratelimit

import (
	"context"
	"fmt"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/reporter"
)

// AutoPersist says when the limiter writes its state file by itself. The zero value is off.
type AutoPersist struct {
	// Delay is the time from the last change to the write. Zero turns AutoPersist off, whatever
	// MaxWait is; it must not be negative.
	Delay time.Duration
	// MaxWait is the longest time that a change stays unwritten while more keep coming. Zero is
	// ten times Delay; otherwise it must be at least Delay.
	MaxWait time.Duration
}

// validate returns an error that names the field that is out of range.
func (a AutoPersist) validate() error {
	switch {
	case a.Delay < 0:
		return fmt.Errorf("AutoPersist.Delay is %v, want 0 or more", a.Delay)
	case a.MaxWait < 0:
		return fmt.Errorf("AutoPersist.MaxWait is %v, want 0 or more", a.MaxWait)
	case a.MaxWait > 0 && a.MaxWait < a.Delay:
		return fmt.Errorf("AutoPersist.MaxWait is %v, want 0 or at least Delay, which is %v", a.MaxWait, a.Delay)
	}
	return nil
}

// maxWait returns MaxWait, or ten times Delay where it is zero.
func (a AutoPersist) maxWait() time.Duration {
	switch {
	case a.MaxWait > 0:
		return a.MaxWait
	case a.Delay > math.MaxInt64/10:
		return math.MaxInt64
	}
	return 10 * a.Delay
}

const (
	// maxGrain is the longest time in which the saver takes changes for one. Telling it of each
	// would cost half as much as RecordUsage.
	maxGrain = time.Millisecond

	// The pause after a failure, which doubles from the first to the last. It is never shorter
	// than Delay.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// saver writes the state file after changes. The debouncer chooses the time, and runs one write
// at a time.
type saver struct {
	rl         *RateLimiter
	writer     *debounce.Debouncer[struct{}]
	reporter   *reporter.Reporter
	grain      int64         // see maxGrain
	firstPause time.Duration // after a failure

	unsaved bool // something changed since the last write began; guarded by rl.mu

	// What follows is guarded by rl.storage.mu.
	pause   time.Duration // before the next retry; 0 when the last write succeeded
	retries *time.Timer   // ends the pause
	paused  bool          // the writer leaves the next write to the retry
	stopped bool
	lost    error // the error of the last save before the database was closed
}

// startSaver loads the state, and saves changes from then on.
func (rl *RateLimiter) startSaver(when AutoPersist, onError func(error)) error {
	if when.Delay == 0 {
		return nil
	}
	if err := rl.Load(); err != nil {
		return err
	}
	s := &saver{
		rl:         rl,
		reporter:   reporter.New(onError),
		grain:      int64(min(maxGrain, when.Delay/16)),
		firstPause: max(firstRetry, when.Delay),
	}
	s.writer = debounce.New(debounce.Options{
		Delay: when.Delay, MaxWait: when.maxWait(), DropOnStop: true,
	}, s.write)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.saver, rl.tellAt = s, math.MinInt64
	return nil
}

// changedLocked notes an unsaved change, as of an instant.
func (rl *RateLimiter) changedLocked(instant int64) {
	if instant >= rl.tellAt {
		rl.tellSaverLocked(instant)
	}
}

// tellSaverLocked tells the saver of a change. It is kept apart so that changedLocked
// can be inlined.
func (rl *RateLimiter) tellSaverLocked(instant int64) {
	s := rl.saver
	if s == nil {
		rl.tellAt = never
		return
	}
	s.unsaved = true
	rl.tellAt = instant + s.grain
	s.writer.Trigger(struct{}{})
}

// changedNowLocked is changedLocked for callers that have not read the clock.
func (rl *RateLimiter) changedNowLocked() {
	if rl.saver != nil {
		rl.changedLocked(rl.clock.Sync())
	}
}

// write is the action of the debouncer.
func (s *saver) write(struct{}) {
	s.rl.storage.mu.Lock()
	var err error
	if !s.paused && s.hasUnsaved() {
		err = s.rl.storage.save(s.rl)
	}
	s.rl.storage.mu.Unlock()
	if err != nil {
		s.reporter.Report(fmt.Errorf("autosave: %w", err))
	}
}

// begin marks all changes so far as saved, because the caller is about to copy the state. A
// change during the copy is copied and causes another write; a later one only causes that write.
// ioMu must be held.
func (s *saver) begin() {
	if s == nil {
		return
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	s.unsaved = false
	s.rl.tellAt = math.MinInt64
	s.writer.Cancel()
}

// end takes the result of the write that begin announced. ioMu must be held.
func (s *saver) end(err error) {
	if s == nil {
		return
	}
	if err == nil {
		s.pause, s.paused = 0, false
		if s.retries != nil {
			s.retries.Stop()
		}
		return
	}
	s.rl.mu.Lock()
	s.unsaved = true
	s.rl.mu.Unlock()
	if s.stopped {
		return
	}
	s.pause = max(min(2*s.pause, lastRetry), s.firstPause)
	s.paused = true
	if s.retries == nil {
		s.retries = time.AfterFunc(s.pause, s.retry)
	} else {
		s.retries.Reset(s.pause)
	}
}

// retry ends the pause after a failure.
func (s *saver) retry() {
	s.rl.storage.mu.Lock()
	s.paused = false
	s.rl.storage.mu.Unlock()
	// By way of the debouncer, so that it stays one write at a time.
	s.writer.Trigger(struct{}{})
	s.writer.Flush()
}

// stop ends the saving in the background.
func (s *saver) stop() {
	if s != nil {
		s.writer.Stop(context.Background()) // cannot fail, because this context never ends
	}
}

// finish saves the remaining changes after the saver was stopped. ioMu must be held, and with
// SQLite until the database is closed.
func (s *saver) finish() error {
	if s == nil {
		return nil
	}
	s.stopped = true
	if s.retries != nil {
		s.retries.Stop()
	}
	s.reporter.Stop()
	if s.rl.storage.sqlite != nil && s.rl.storage.sqlite.db == nil {
		return s.lost
	}
	if s.hasUnsaved() {
		s.lost = s.rl.storage.save(s.rl)
	}
	return s.lost
}

func (s *saver) hasUnsaved() bool {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.unsaved
}
