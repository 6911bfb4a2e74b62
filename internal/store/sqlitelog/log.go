//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Log is the log of one process in a database. Get one from Store.Open.
type Log struct {
	store   *Store
	options store.Options
	path    string
	clock   *machineClock
	began   time.Time

	closing context.Context
	stop    context.CancelFunc
	close   sync.Once
	closed  error // of close

	lock    atomic.Pointer[fsx.FairLock] // of all processes; changed with writing held
	writing token                        // who has it may use the lock, and file.writer
	reading token                        // who has it may use file.reader
	file    *file                        // changed with both held
	missing time.Time                    // since when the file is; of writing
	life    *fsx.LifeLock                // of writing

	damage  atomic.Pointer[error] // found in the file, which is looked at before it is used again
	last    atomic.Pointer[head]  // that was read; nil before the first
	checkAt atomic.Int64          // until when the mark is relied on, in ns since began

	sweeping sync.Mutex
	dead     []int64 // processes that were dead at sweptAt
	sweptAt  time.Time
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Witness = (*Log)(nil)
)

var errClosed = errors.New("the log is closed")

// Open implements store.Store. It makes the folder, the lock and the database where they are
// missing. The error wraps fsx.ErrRemote where other machines may use the folder.
func (s *Store) Open(ctx context.Context, options store.Options) (store.Log, error) {
	l, err := s.open(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open shared database: %w", err)
	}
	return l, nil
}

func (s *Store) open(ctx context.Context, options store.Options) (*Log, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := fsx.CheckPath(s.Path); err != nil {
		return nil, err
	}
	path, err := fsx.Target(fsx.Absolute(s.Path))
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := fsx.CheckLocal(folder); err != nil {
		return nil, err
	}
	lock, err := fsx.OpenFairLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	l := &Log{
		store: s, options: options, path: path, clock: newMachineClock(), began: time.Now(),
		writing: newToken(), reading: newToken(),
	}
	l.closing, l.stop = context.WithCancel(context.Background())
	l.lock.Store(lock)
	if err := l.write(ctx, func(rows) error { return nil }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.sweepLives()
	return l, nil
}

// explain names the file in an error, and notes whether it means damage.
func (l *Log) explain(err error) error {
	if isDamage(err) {
		l.damage.Store(&err)
	}
	return sqlitestate.Explain(l.path, err)
}

// markOf is what the mark in the lock file says of a log that ends at a position.
func markOf(end store.Position) int64 {
	return int64(end.Log ^ bits.RotateLeft64(end.Sum, 21) ^ uint64(end.Seq)*0x9e3779b97f4a7c15)
}

// Append implements store.Log.
func (l *Log) Append(ctx context.Context, after store.Position, batch []store.Entry) (news store.News, err error) {
	if len(batch) == 0 {
		return l.look(ctx, after)
	}
	var h *head
	err = l.write(ctx, func(r rows) (err error) {
		if h = l.knownEnd(after); h == nil {
			if h, err = l.readHead(r); err != nil {
				return err
			}
			if news, err = r.page(h, after); err != nil {
				return err
			}
		}
		news.Now = l.clock.stamp(h)
		entries, err := r.add(h, batch, news.Now)
		if err != nil {
			return err
		}
		if !news.More {
			news.Entries = append(news.Entries, entries...)
		}
		// Before the commit: if the process is killed in between, it is a mark of an end that no
		// process has seen, and all ask SQLite until the next append.
		return l.lock.Load().SetMark(markOf(h.end))
	})
	if err != nil {
		return store.News{}, fmt.Errorf("append: %w", err)
	}
	l.last.Store(h)
	return news, nil
}

// knownEnd returns a copy of the head that was last read, if the log ends there at the position.
func (l *Log) knownEnd(at store.Position) *head {
	last := l.last.Load()
	if last == nil || last.end != at || l.mayHaveNews(at) {
		return nil
	}
	h := *last
	return &h
}

// readHead reads the head, by which the mark is relied on for a while.
func (l *Log) readHead(r rows) (*head, error) {
	now := int64(time.Since(l.began))
	h, err := r.head()
	if err == nil {
		l.checkAt.Store(now + int64(checkEvery))
	}
	return h, err
}

// look reads the page behind a position.
func (l *Log) look(ctx context.Context, after store.Position) (news store.News, err error) {
	err = l.read(ctx, func(r rows) error {
		h, err := l.readHead(r)
		if err != nil {
			return err
		}
		l.last.Store(h)
		news, err = r.page(h, after)
		news.Now = l.clock.stamp(h)
		return err
	})
	if err != nil {
		return store.News{}, fmt.Errorf("read: %w", err)
	}
	return news, nil
}

const (
	// pollEvery is how often a read looks at the mark, unless it may gather for longer. Where
	// nothing happens it looks more rarely, so that news are late by a pollPart of the quiet time.
	pollEvery   = time.Millisecond
	pollLongest = 4 * time.Millisecond
	pollPart    = 64
	// checkEvery is how long the mark is relied on. It does not tell what another program does, nor
	// that the file is gone.
	checkEvery = time.Second
)

// mayHaveNews guesses from the mark whether there are entries behind a position. That takes a
// tenth of the time of the question to SQLite.
func (l *Log) mayHaveNews(after store.Position) bool {
	isCheckDue := int64(time.Since(l.began)) >= l.checkAt.Load()
	return isCheckDue || !l.lock.Load().HasMark(markOf(after))
}

// Read implements store.Log. It looks at the mark every few milliseconds, or every gather: news are
// gathered between two looks.
func (l *Log) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	began := time.Now()
	for {
		if l.mayHaveNews(after) {
			news, err := l.look(ctx, after)
			if err != nil || len(news.Entries) > 0 {
				return news, err
			}
		}
		quiet := time.Since(began)
		left, every := wait-quiet, max(gather, pollEvery, min(quiet/pollPart, pollLongest))
		if left <= 0 {
			return store.News{Now: l.clock.stamp(l.last.Load())}, l.over(ctx)
		}
		select {
		case <-time.After(min(every, left)):
		case <-ctx.Done():
			return store.News{}, fmt.Errorf("read: %w", ctx.Err())
		case <-l.closing.Done():
			return store.News{}, fmt.Errorf("read: %w", errClosed)
		}
	}
}

// Load implements store.Log.
func (l *Log) Load(ctx context.Context) (image store.Image, err error) {
	err = l.read(ctx, func(r rows) error {
		image, err = r.load()
		return err
	})
	if err != nil {
		return store.Image{}, fmt.Errorf("load image: %w", err)
	}
	return image, nil
}

// Traits tells what kind of store it is. What a limiter knows is as new as the mark.
func (l *Log) Traits() store.Traits {
	return store.Traits{System: "sqlite", Timeout: turnFor / 2, MaxStale: 1, Contact: time.Minute, Steady: true}
}

// Close implements store.Log. It gives up the life file and the lock.
func (l *Log) Close() error {
	l.close.Do(func() {
		l.stop()
		l.writing.take(context.Background())
		defer l.writing.give()
		l.reading.take(context.Background())
		defer l.reading.give()
		err := l.file.close()
		l.file = nil
		if l.life != nil {
			err = errors.Join(err, l.life.Release())
		}
		l.closed = errors.Join(err, l.lock.Load().Close())
	})
	return l.closed
}
