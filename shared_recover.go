package ratelimit

import (
	"context"
	"errors"
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
	// recoverRemote is the same for a remote log, which may be long: calls go on in memory
	// meanwhile.
	recoverRemote = 10 * time.Second
)

// fail notes that the log cannot be used, and returns the error. From then on the limiter decides
// by its memory alone.
func (s *ledger) fail(err error) error {
	s.rl.mu.Lock()
	s.err = err
	s.divideLocked()
	began := !s.down.Swap(true)
	if began {
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
	if began {
		s.rl.teller.storeRLocked(s.system, err)
	}
	s.rl.mu.Unlock()
	s.reporter.Report(err)
	if began && s.remote != nil {
		s.hope.Begin(s.remote.MostWait()*3/4, s.tryRecovery) // in which one more lost reply has a place
	} else {
		s.recovery.Failed()
	}
	return err
}

func (s *ledger) tryRecovery() {
	<-s.writer
	defer func() { s.writer <- struct{}{} }()
	wait := recoverFor
	if s.remote != nil {
		wait = recoverRemote
	}
	s.recover(wait)
}

// recover uses the log again if that is possible, and waits for other processes for at most the
// given time. The caller holds the writer's token.
func (s *ledger) recover(wait time.Duration) error {
	for s.joining != nil { // another goroutine is at it
		joined := s.joining
		s.writer <- struct{}{}
		<-joined
		<-s.writer
	}
	if !s.down.Load() || s.closed.Load() {
		return s.failure()
	}
	ctx, cancel := context.WithTimeout(background, wait)
	defer cancel()
	for {
		step, err := s.beginAnew(ctx)
		if err == nil {
			_, err = s.carryOut(ctx, step, nothing)
		}
		if err == nil {
			break
		}
		if s.drop(); !errors.Is(err, sharedlog.ErrPartly) || ctx.Err() != nil {
			return s.fail(err)
		}
	}
	s.recovery.Succeeded()
	s.step(background, nothing) // serves the waiters
	return s.failure()
}

// beginAnew begins a step with everything in the log. Of a remote log that takes long: the caller's
// token is given back for that time, and the others go on in memory.
func (s *ledger) beginAnew(ctx context.Context) (sharedlog.Step, error) {
	if s.remote == nil {
		return s.log.Begin(ctx, sharedlog.Everything)
	}
	joined := make(chan struct{})
	s.joining = joined
	s.writer <- struct{}{}
	step, err := s.log.Begin(ctx, sharedlog.Everything)
	<-s.writer
	s.joining = nil
	close(joined)
	if err == nil && s.closed.Load() {
		step.Rollback()
		err = ErrClosed
	}
	return step, err
}
