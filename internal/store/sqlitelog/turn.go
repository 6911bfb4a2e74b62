//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	// turnFor is how long a call waits for other processes and programs before it fails, and how
	// long it takes until a process goes on without the file: two appends, each of half of it.
	turnFor = 3 * time.Second
	// waitPiece is how long a wait does not look whether its context has ended: nothing else could
	// end it.
	waitPiece = 20 * time.Millisecond
)

// token is a mutex that a context can give up to wait for.
type token chan struct{}

func newToken() token { return make(token, 1) }

func (t token) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t token) give() { <-t }

// takeLock waits for the lock of all processes. If it gives up, it keeps the place in the queue for
// the next call.
func (l *Log) takeLock(ctx context.Context) error {
	if err := l.over(ctx); err != nil {
		return fmt.Errorf("wait for another process: %w", err)
	}
	lock := l.lock.Load()
	return l.patiently(ctx, func() error { return lock.Lock(waitPiece) })
}

// over returns an error once the context or the log has ended.
func (l *Log) over(ctx context.Context) error {
	if l.closing.Err() != nil {
		return errClosed
	}
	return ctx.Err()
}

// patiently calls f again for as long as another process has the lock, or another program is in the
// way that does not use it.
func (l *Log) patiently(ctx context.Context, f func() error) error {
	// Not by the clock, which stands still in a bubble of testing/synctest while SQLite waits.
	for waited := time.Duration(0); ; waited += waitPiece {
		err := f()
		whom := "another program"
		switch {
		case errors.Is(err, fsx.ErrLockTimeout):
			whom = "another process"
		case err == nil || !sqlitestate.IsBusy(err):
			return err
		}
		if ended := l.over(ctx); ended != nil {
			return fmt.Errorf("wait for %s: %w", whom, ended)
		}
		if waited >= turnFor {
			return fmt.Errorf("waited %v for %s: %w", turnFor, whom, err)
		}
	}
}

// write calls do in a transaction, with the lock of all processes held. Until do has returned
// without an error, the error is ErrNotWritten, too.
func (l *Log) write(ctx context.Context, do func(rows) error) error {
	if err := l.writing.take(ctx); err != nil {
		return notWritten(err)
	}
	defer l.writing.give()
	if err := l.secureLock(); err != nil {
		return notWritten(err)
	}
	if err := l.takeLock(ctx); err != nil {
		return notWritten(err)
	}
	defer func() { l.lock.Load().Unlock() }()
	if err := l.secureFile(ctx); err != nil {
		return notWritten(l.explain(err))
	}
	w := l.file.writer
	err := l.patiently(ctx, func() error { _, err := w.Exec("BEGIN IMMEDIATE"); return err })
	if err != nil {
		return notWritten(l.explain(err))
	}
	if err := do(w.rows); err != nil {
		w.Exec("ROLLBACK")
		return notWritten(l.explain(err))
	}
	if _, err := w.Exec("COMMIT"); err != nil {
		w.Exec("ROLLBACK") // if it fails, there was no transaction any more
		l.checkAt.Store(0)
		return l.explain(err)
	}
	return nil
}

// change is write with the head of the log.
func (l *Log) change(ctx context.Context, do func(rows, *head) error) error {
	return l.write(ctx, func(r rows) error {
		h, err := r.head()
		if err != nil {
			return err
		}
		return do(r, h)
	})
}

// notWritten makes an error one that says that nothing was written.
func notWritten(err error) error { return fmt.Errorf("%w (%w)", err, store.ErrNotWritten) }

// read calls do in a transaction that only reads.
func (l *Log) read(ctx context.Context, do func(rows) error) error {
	for range 2 {
		if err := l.reading.take(ctx); err != nil {
			return err
		}
		if l.usable() {
			defer l.reading.give()
			return l.readLocked(ctx, do)
		}
		l.reading.give()
		if err := l.write(ctx, func(rows) error { return nil }); err != nil {
			return err
		}
	}
	return errors.New("the database was replaced again and again")
}

func (l *Log) readLocked(ctx context.Context, do func(rows) error) error {
	if err := l.over(ctx); err != nil {
		return err
	}
	r := l.file.reader
	err := l.patiently(ctx, func() error { _, err := r.Exec("BEGIN"); return err })
	if err != nil {
		return l.explain(err)
	}
	err = l.patiently(ctx, func() error { return do(r.rows) })
	r.Exec("COMMIT")
	return l.explain(err)
}
