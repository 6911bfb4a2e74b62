//go:build !nosqlite

package sqlitelog

import (
	"context"
	"fmt"
	"os"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// step is a sharedlog.Step: the lock is held, and a transaction is open.
type step struct {
	log  *Log
	news sharedlog.News
	last int64   // the place of the last event in the database
	dead []int64 // processes whose life files can go when the step is through
}

// Begin takes the lock of all processes and begins a transaction. With Everything it first
// opens what has to be opened.
func (l *Log) Begin(ctx context.Context, seen int64) (sharedlog.Step, error) {
	begin := l.begin
	if seen == sharedlog.Everything {
		begin = l.join
	}
	s, err := begin(ctx, seen)
	if err != nil {
		return nil, l.failed(err)
	}
	return s, nil
}

// failed notes whether an error means damage, and explains it.
func (l *Log) failed(err error) error {
	l.suspect = l.suspect || sqlitestate.IsDamage(err)
	return l.explain(err)
}

// begin begins a step of a log that is open.
func (l *Log) begin(ctx context.Context, seen int64) (*step, error) {
	if l.file == nil {
		return nil, fmt.Errorf("shared database: %w", os.ErrClosed)
	}
	w, lock := wait{ctx: ctx, most: stepFor}, l.lock.Load()
	if err := w.takeLock(lock); err != nil {
		return nil, err
	}
	mayBeNews := !lock.HasMark(seen)
	err := lock.InPlace()
	if err == nil {
		err = l.file.inPlace()
	}
	if err == nil {
		err = l.file.begin(w)
	}
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	s := &step{log: l, last: seen}
	if mayBeNews {
		err = s.readNews(seen)
	}
	if err == nil && s.news.Image == nil {
		err = l.addFacts(l.file.writer.rows, &s.news)
	}
	if err != nil {
		s.Rollback()
		return nil, err
	}
	return s, nil
}

// readNews reads the events behind seen, or everything if some of them are missing.
func (s *step) readNews(seen int64) error {
	events, complete, err := s.log.file.writer.eventsAfter(seen)
	if err != nil {
		return err
	}
	if complete {
		s.news.Events, s.last = events, seen+int64(len(events))
		return nil
	}
	c, err := s.log.file.writer.readContent()
	if err != nil {
		return err
	}
	s.see(c)
	return nil
}

// see makes the content of the database the news of the step.
func (s *step) see(c *content) {
	s.news, s.last = c.news(s.log.options.Process), c.last()
	leases := make(map[int64]lease, len(c.leases))
	for _, l := range c.leases {
		leases[l.process] = l
	}
	s.log.setJoining(leases)
}

func (l *Log) setJoining(leases map[int64]lease) {
	l.readMu.Lock()
	l.joining = leases
	l.readMu.Unlock()
}

// News returns what other processes have added.
func (s *step) News() sharedlog.News { return s.news }

// Commit writes a batch and ends the step.
//
// The watermark comes before the commit: if the process is killed in between, it is a mark
// of an event that no process has seen, and all ask SQLite until the next change.
func (s *step) Commit(b *sharedlog.Batch) (first int64, err error) {
	l := s.log
	if err = s.write(b); err == nil {
		err = l.lock.Load().SetMark(s.last + int64(len(b.Events)))
	}
	if err != nil {
		s.Rollback()
		return 0, l.failed(err)
	}
	err = l.file.commit()
	if unlockErr := s.end(); err == nil {
		err = unlockErr
	}
	if err != nil {
		return 0, l.failed(err)
	}
	if s.news.Image != nil {
		l.asUsed = false
	}
	for _, e := range b.Events {
		if e.Kind == sharedlog.Gone && e.Ref != l.options.Process {
			s.dead = append(s.dead, e.Ref)
		}
	}
	l.removeDead(s.dead)
	return s.last + 1, nil
}

// Rollback ends the step without a change.
func (s *step) Rollback() {
	s.log.file.rollback()
	s.end()
}

// end gives the lock back.
func (s *step) end() error {
	if s.news.Image != nil {
		s.log.setJoining(nil)
	}
	return s.log.lock.Load().Unlock()
}

// write writes a batch.
func (s *step) write(b *sharedlog.Batch) error {
	l, w := s.log, s.log.file.writer
	for i, e := range b.Events {
		if err := w.writeEvent(e, s.last+1+int64(i), b.NameOf); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	if err := w.fold(b.Passed); err != nil {
		return fmt.Errorf("fold events: %w", err)
	}
	for _, d := range b.Drops {
		if err := w.drop(d[0], d[1]); err != nil {
			return fmt.Errorf("drop events: %w", err)
		}
	}
	if b.Sweep {
		if err := w.Sweep(b.Wall); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	if b.Renew {
		if err := w.renew(l.options.Process, b.Wall, b.Mono, l.options.LeaseTTL); err != nil {
			return fmt.Errorf("renew lease: %w", err)
		}
	}
	for _, process := range b.Vouch {
		// It has time to come and say that it lives.
		if err := w.vouch(process, b.Wall, b.Mono, l.options.LeaseTTL); err != nil {
			return fmt.Errorf("extend the lease of another process: %w", err)
		}
	}
	return nil
}
