package ratelimit

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

const (
	// The pauses between two attempts to use the log again grow from the first to the last.
	firstRecovery = 100 * time.Millisecond
	lastRecovery  = time.Second

	// recoverFor is how long an attempt waits for other processes. All calls wait for it,
	// which would go on in memory. recoverAtOnce is the same where a caller asked for it.
	recoverFor    = 100 * time.Millisecond
	recoverAtOnce = 3 * time.Second
)

// fail notes that the log cannot be used, and returns why. From then on memory alone
// decides.
func (s *ledger) fail(err error) error {
	s.rl.mu.Lock()
	s.err = err
	if !s.down.Swap(true) {
		// The other processes cannot be heard, so nothing waits for theirs.
		for process := range s.peers.Processes() {
			for n, w := range s.peers.Waiters(process) {
				if w.process != 0 {
					s.peers.RemoveWaiter(process, n)
					s.rl.linesLocked().leaveLinesLocked(w)
				}
			}
		}
		s.lines.stirs++
	}
	s.rl.mu.Unlock()
	s.reporter.Report(err)
	s.recovery.Failed()
	return err
}

func (s *ledger) tryRecovery() {
	<-s.writer
	defer func() { s.writer <- struct{}{} }()
	s.recover(recoverFor)
}

// recover uses the log again if that is possible, and waits for other processes at most that
// long. The caller holds the writer's token.
func (s *ledger) recover(wait time.Duration) error {
	if !s.down.Load() || s.closed.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(background, wait)
	defer cancel()
	if _, err := s.attempt(ctx, sharedlog.Everything, nothing); err != nil {
		s.drop()
		return s.fail(err)
	}
	s.recovery.Succeeded()
	s.step(background, nothing) // serves the waiters
	return s.failure()
}
