//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

var _ store.Viewer = (*Store)(nil)

const (
	// viewTries is how often a database is looked at that others replace meanwhile.
	viewTries = 50
	viewAgain = 10 * time.Millisecond
)

// errMoved is the error of a look at a database that changed meanwhile.
var errMoved = errors.New("the database changed meanwhile")

// View implements store.Viewer. It makes no file, and takes no lock but SQLite's for readers.
func (s *Store) View(ctx context.Context) (view store.View, err error) {
	if err := fsx.CheckPath(s.Path); err != nil {
		return view, err
	}
	path, err := fsx.Target(fsx.Absolute(s.Path))
	if err == nil {
		_, err = os.Stat(path)
	}
	for tries := 0; err == nil; tries++ {
		view, err = viewFile(path)
		passes := errors.Is(err, errMoved) || sqlitestate.IsBusy(err) || sqlitestate.IsReadOnly(err)
		if !passes || tries == viewTries {
			break
		}
		select {
		case <-time.After(viewAgain):
			err = nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return store.View{}, fmt.Errorf("look at the shared database: %w", sqlitestate.Explain(s.Path, err))
	}
	return view, nil
}

// viewFile looks at a database once.
//
// To read a database with a write-ahead log, SQLite makes the log and its index where they are
// missing. They are where a process has it open, or was killed; the index is only read then. Else
// all is in the database, which is read as a file that nobody changes, and what was read counts if
// nobody did. If the last process leaves between the look at the log and the opening, SQLite makes
// an empty log, as any process that opens the database would.
func viewFile(path string) (view store.View, err error) {
	opening.Lock()
	defer opening.Unlock()
	before, logged := stateOf(path)
	params := url.Values{"mode": {"ro"}, "readonly_shm": {"1"}}
	if !logged {
		params = url.Values{"mode": {"ro"}, "immutable": {"1"}}
	}
	err = sqlitestate.View(path, params, func(s *sqlitestate.Statements) (err error) {
		view, err = rows{s}.view()
		return err
	})
	after, still := stateOf(path)
	_, noIndex := os.Stat(path + "-shm")
	switch {
	case !logged && (still || !isSame(before, after)) || logged && err != nil && !still:
		err = errMoved
	case logged && err != nil && errors.Is(noIndex, fs.ErrNotExist):
		err = errors.New("its write-ahead log has no index: the next limiter that opens it makes one")
	}
	return view, err
}

// stateOf returns what is known of a database, nil where there is none, and whether it has a log
// with something in it.
func stateOf(path string) (is os.FileInfo, logged bool) {
	is, _ = os.Stat(path)
	log, err := os.Stat(path + "-wal")
	return is, err == nil && log.Size() > 0
}

// isSame reports whether nobody has written to a file between two looks.
func isSame(before, after os.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// view returns what is in the database.
func (r rows) view() (view store.View, err error) {
	if err := r.checkView(); err != nil {
		return view, err
	}
	h, err := r.head()
	if err != nil {
		return view, err
	}
	if view.Image, err = r.load(); err != nil {
		return view, err
	}
	if view.Image.IsZero() {
		return view, errNoLog
	}
	at := view.Image.At
	for more := true; more; {
		news, err := r.page(h, at)
		if err != nil {
			return view, err
		}
		view.Entries = append(view.Entries, news.Entries...)
		at, more = news.End(at), news.More
	}
	view.Now = newMachineClock().stamp(h)
	return view, nil
}

// errNoLog is the error of a look at a database that nobody has begun to use.
var errNoLog = errors.New("no limiter has used it yet")

// checkView returns why a database is none of this format. A limiter that opens it may take it
// over.
func (r rows) checkView() error {
	version, err := r.Format()
	switch {
	case err != nil || version == format:
		return err
	case version > format:
		return sqlitestate.Foreign("format %d, this version knows %d", version, format)
	case version >= firstFormer:
		return fmt.Errorf("it has the layout of an earlier version (format %d): "+
			"the first limiter of this version that opens it takes it over", version)
	case version > 0:
		return fmt.Errorf("it is one limiter's own (format %d), and not shared", version)
	}
	all, err := r.Number(`SELECT count(*) FROM sqlite_master`)
	if err == nil && all > 0 {
		err = sqlitestate.Foreign("it has no format, and %d tables of another program", all)
	}
	if err == nil {
		err = errNoLog
	}
	return err
}
