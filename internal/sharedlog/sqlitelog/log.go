//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Log is a sharedlog.Log in a database. Get one from Open.
type Log struct {
	path    string
	options Options
	started time.Time

	machine atomic.Pointer[clock.Machine]
	lock    atomic.Pointer[fsx.FairLock] // of all processes; changed between Begin and Commit
	checkAt atomic.Int64                 // until when the mark is relied on, in ns since started
	factsAt atomic.Int64                 // when the facts are due to be read, in ns since started

	readMu sync.Mutex // one reader at a time

	// file is the open database; nil where it is not open. It is changed with readMu held, by
	// the goroutine that is between Begin and Commit, which may read it without.
	file *file

	// Guarded by readMu.
	version int64           // of the file when events up to readTo were read
	readTo  int64           // the place of the last of them
	joining map[int64]lease // what a step that reads everything has read; nil outside of one

	// Of the goroutine between Begin and the end of its step, or in Close.
	life    *fsx.LifeLock
	opened  bool      // the file was open before
	suspect bool      // it may be damaged
	asUsed  bool      // a new file is to begin as if the minute were used
	missing time.Time // since when the file is; zero when it is there
}

var _ sharedlog.Log = (*Log)(nil)

// Open returns a Log in the database at path. It makes the folder and the lock. The first
// Begin, of Everything, opens or creates the database. The error wraps fsx.ErrRemote where
// other machines may use the folder. Close the Log when it is no longer needed.
func Open(path string, options Options) (*Log, error) {
	if err := fsx.CheckPath(path); err != nil {
		return nil, err
	}
	path, err := fsx.Target(fsx.Absolute(path))
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
	l := &Log{path: path, options: options, started: time.Now(), version: -1}
	l.lock.Store(lock)
	l.machine.Store(&options.Machine)
	return l, nil
}

// Clock returns the machine's time on the limiter's time line. It is the zero value where that
// is not known, and where others use the database that count from another start of the
// machine.
func (l *Log) Clock() clock.Machine { return *l.machine.Load() }

// Changed returns nil: the log has to be asked.
func (l *Log) Changed() <-chan struct{} { return nil }

// checkEvery is how long the watermark is relied on. It does not tell that the file is gone.
const checkEvery = 25 * time.Millisecond

// factsEvery is how often the span is read.
const factsEvery = time.Second

// isDue reports whether it is time for something, and sets when it is so again.
func (l *Log) isDue(at *atomic.Int64, every time.Duration) bool {
	now := int64(time.Since(l.started))
	if now < at.Load() {
		return false
	}
	at.Store(now + int64(every))
	return true
}

// Stale guesses, from the watermark in the lock file, whether there may be events behind
// seen. That takes a tenth of the time of the question to SQLite.
func (l *Log) Stale(seen int64) bool {
	return int64(time.Since(l.started)) >= l.checkAt.Load() || !l.lock.Load().HasMark(seen)
}

// Read returns the events behind seen.
func (l *Log) Read(_ context.Context, seen int64) (sharedlog.News, error) {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	news, err := l.readLocked(seen)
	switch {
	case sqlitestate.IsBusy(err):
		return news, noTime{l.explain(err)}
	case err != nil:
		return news, l.explain(err)
	}
	return news, nil
}

func (l *Log) readLocked(seen int64) (news sharedlog.News, err error) {
	if l.file == nil {
		return news, fmt.Errorf("shared database: %w", os.ErrClosed)
	}
	l.checkAt.Store(int64(time.Since(l.started) + checkEvery))
	if err := l.file.inPlace(); err != nil {
		return news, err
	}
	reader := l.file.reader
	version, err := reader.Number("PRAGMA data_version")
	if err != nil || version == l.version && seen >= l.readTo {
		return news, err
	}
	events, complete, err := reader.eventsAfter(seen)
	if err == nil && !complete {
		err = sharedlog.ErrIncomplete
	}
	if err != nil {
		return news, err
	}
	news.Events = events
	if err := l.addFacts(reader.rows, &news); err != nil {
		return sharedlog.News{}, err
	}
	l.version, l.readTo = version, seen+int64(len(events))
	return news, nil
}

// addFacts tells how far the days are folded, beside events always: what a limiter makes of the end
// of a call depends on whether the call is folded. It tells the span if that is due.
func (l *Log) addFacts(r rows, news *sharedlog.News) (err error) {
	due := l.isDue(&l.factsAt, factsEvery)
	if due {
		if news.Span, err = r.fact(factSpan); err != nil {
			return err
		}
	}
	if due || len(news.Events) > 0 {
		news.Folded, err = r.fact(factFolded)
	}
	return err
}

// explain names the file in an error, unless that is there.
func (l *Log) explain(err error) error {
	if err == nil || errors.Is(err, state.ErrCorrupt) || strings.HasPrefix(err.Error(), l.path) {
		return err
	}
	if late := (noTime{}); errors.As(err, &late) {
		return noTime{sqlitestate.Explain(l.path, late.error)}
	}
	return sqlitestate.Explain(l.path, err)
}

// Close closes the database and gives up the life file and the lock.
func (l *Log) Close() error {
	l.readMu.Lock()
	err := l.file.close()
	l.file = nil
	l.readMu.Unlock()
	if l.life != nil {
		err = errors.Join(err, l.life.Release())
	}
	return errors.Join(err, l.lock.Load().Close())
}
