//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// recreateAfter is how long a file must be missing before it is made anew: somebody may be
// about to put it back.
const recreateAfter = time.Second

// join begins a step that reads everything. It opens, repairs or replaces what has to be.
func (l *Log) join(ctx context.Context, _ int64) (*step, error) {
	w := joinWait(ctx)
	if err := l.lock.Load().InPlace(); err != nil {
		if err := l.relock(); err != nil {
			return nil, err
		}
	}
	if err := w.takeLock(l.lock.Load()); err != nil {
		return nil, err
	}
	if err := l.prepare(w); err != nil {
		l.lock.Load().Unlock()
		return nil, err
	}
	s := &step{log: l}
	if err := s.readEverything(); err != nil {
		s.Rollback()
		return nil, err
	}
	return s, nil
}

// readEverything reads the database within the transaction of the step, and brings up to
// date what it says of the machine and the processes.
func (s *step) readEverything() error {
	writer := s.log.file.writer
	c, err := writer.readContent()
	if err != nil {
		return err
	}
	if err := s.log.settle(settling{writer.rows, c}); err != nil {
		return err
	}
	s.see(c)
	s.dead = s.log.unknownDead(c.processes())
	return nil
}

// prepare makes sure that the right file is open, that others see this process live, and that
// the file can be written. It leaves a transaction open.
func (l *Log) prepare(w wait) error {
	if l.life == nil {
		if info, err := os.Stat(l.path); (err != nil || info.Size() == 0) && l.othersLive() {
			// The file was deleted, and those that know its content have not noticed yet.
			l.asUsed = !l.options.FreshStart
		}
		if err := l.holdLife(); err != nil {
			return err
		}
	}
	if err := l.secureFile(w); err != nil {
		return err
	}
	l.missing = time.Time{}
	if err := l.holdLife(); err != nil {
		return err
	}
	return l.file.begin(w)
}

// secureFile opens the file unless it is open and all right.
func (l *Log) secureFile(w wait) error {
	if l.file != nil && !l.suspect && l.file.inPlace() == nil {
		// To bring memory and file together costs more than to find out whether the file can
		// be written.
		return l.probe(w)
	}
	return l.reopen(w)
}

// probe writes a little to the file.
func (l *Log) probe(w wait) error {
	if err := l.file.begin(w); err != nil {
		return err
	}
	wall, mono := l.clocks()
	if err := l.file.writer.renew(l.options.Process, wall, mono, l.options.LeaseTTL); err != nil {
		l.file.rollback()
		return err
	}
	return l.file.commit()
}

// relock opens the lock again, where its file was moved or deleted.
func (l *Log) relock() error {
	folder := filepath.Dir(l.path)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if err := l.waitForFile(err); err != nil {
			return err
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	lock, err := fsx.OpenFairLock(l.path + ".lock")
	if err != nil {
		return err
	}
	l.lock.Swap(lock).Close()
	return nil
}

// waitForFile returns the error that a file is missing until it is time to make it anew.
func (l *Log) waitForFile(err error) error {
	if l.missing.IsZero() {
		l.missing = time.Now()
	}
	if time.Since(l.missing) < recreateAfter {
		return fmt.Errorf("database was moved or deleted while it was open: %w", err)
	}
	return nil
}

// reopen opens the file that is at the path now, or a new one.
func (l *Log) reopen(w wait) error {
	if _, err := os.Stat(l.path); l.opened && errors.Is(err, fs.ErrNotExist) {
		if err := l.waitForFile(err); err != nil {
			return err
		}
	}
	if l.file != nil {
		l.readMu.Lock()
		l.file.close()
		l.file.setLogAside()
		l.file = nil
		l.readMu.Unlock()
	}
	return l.openFile(w)
}

// openFile opens the file. One that is damaged is set aside, and a new one takes its place.
// The lock must be held.
func (l *Log) openFile(w wait) error {
	for began, aside := time.Now(), false; ; {
		f, err := openFile(l.path, l.options.Durability)
		if err == nil {
			l.readMu.Lock()
			l.file, l.version = f, -1
			l.readMu.Unlock()
			l.suspect, l.opened = false, true
			return nil
		}
		switch {
		case sqlitestate.IsBusy(err):
			if _, ok := w.left(waitPiece); !ok {
				return w.over(forProgram, err)
			}
			if time.Since(began) >= w.most {
				return w.long(forProgram, err)
			}
			time.Sleep(20 * time.Millisecond)
		case sqlitestate.IsDamage(err) && !aside:
			name, asideErr := setAside(l.path)
			if asideErr != nil {
				return errors.Join(l.explain(err), asideErr)
			}
			if l.options.Report != nil {
				l.options.Report(fmt.Errorf("shared database was damaged and is now %s: %w", name, l.explain(err)))
			}
			aside, l.asUsed = true, !l.options.FreshStart
		default:
			return err
		}
	}
}
