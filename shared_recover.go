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

	// recoverFor is how long an attempt waits for other processes. Calls that could go on in memory
	// wait for the attempt. recoverAtOnce is the same for an attempt that a caller asked for.
	recoverFor    = 100 * time.Millisecond
	recoverAtOnce = 3 * time.Second
)

// fail notes that the log cannot be used, and returns the error. From then on the limiter decides
// by its memory alone.
func (s *ledger) fail(err error) error {
	s.rl.mu.Lock()
	s.err = err
	s.divideLocked()
	if !s.down.Swap(true) {
		// This process does not learn when waiters of others leave, so none is ahead of its own.
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

// recover uses the log again if that is possible, and waits for other processes for at most the
// given time. The caller holds the writer's token.
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
