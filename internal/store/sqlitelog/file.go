//go:build !nosqlite

package sqlitelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// file is the open database: a connection that writes, and one that only reads.
type file struct {
	path        string
	opened, wal os.FileInfo

	writer, reader *connection
}

// connection is one connection to a database, with its statements.
type connection struct {
	rows
	db   *sql.DB
	conn *sql.Conn
}

// connect opens a connection to a database. params are parameters of the driver.
func connect(path string, params url.Values, pragma string) (*connection, error) {
	// The lock keeps other limiters out, so that only another program can be in the way. The wait
	// for it is in small pieces because SQLite's own knows no deadline.
	params.Set("_busy_timeout", strconv.FormatInt(waitPiece.Milliseconds(), 10))
	db, err := sqlitestate.Connections(path, params, pragma)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &connection{rows{sqlitestate.OnConn(conn)}, db, conn}, nil
}

func (c *connection) close() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.Close(), c.conn.Close(), c.db.Close())
}

// opening is held while a database is opened, and while one is looked at: the connections of a
// process share the index of its log, and none can write to one that was opened to be read.
var opening sync.Mutex

// openFile opens the database, and makes it a store where it is none. The lock must be held. had
// says that a database without a log is one that lost it.
func (l *Log) openFile(had bool) (*file, error) {
	opening.Lock()
	defer opening.Unlock()
	setOrphansAside(l.path)
	path, err := sqlitestate.PrepareFile(l.path)
	if err != nil {
		return nil, err
	}
	err = sqlitestate.InspectBy(path, func(s *sqlitestate.Statements) error {
		_, _, err := l.checkSchema(s)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := &file{path: path}
	if err := l.openConnections(f, had); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (l *Log) openConnections(f *file, had bool) (err error) {
	if f.opened, err = os.Stat(f.path); err != nil {
		return err
	}
	synchronous := "NORMAL"
	if l.store.Durability == DurablePower {
		synchronous = "FULL"
	}
	if f.writer, err = connect(f.path, url.Values{"_journal_mode": {"WAL"}}, "synchronous("+synchronous+")"); err != nil {
		return err
	}
	if err := f.checkJournal(); err != nil {
		return err
	}
	if err := l.makeStore(f.writer, had); err != nil {
		return err
	}
	if f.reader, err = connect(f.path, url.Values{}, "query_only(ON)"); err != nil {
		return err
	}
	if f.wal, err = os.Stat(f.path + "-wal"); err != nil {
		return err
	}
	if err := f.usable(); err != nil { // or another file may have been opened
		f.setLogAside()
		return err
	}
	return nil
}

// makeStore makes a database a store where it is none, in a transaction.
func (l *Log) makeStore(c *connection, had bool) error {
	if _, err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := l.ensureTables(c.Statements, had)
	if err == nil {
		err = l.settleBoot(c.rows)
	}
	if err == nil {
		_, err = c.Exec("COMMIT")
	}
	if err != nil {
		c.Exec("ROLLBACK")
	}
	return err
}

// checkJournal makes sure that the file has a write-ahead log: SQLite falls back to another
// journal, silently, where the file system cannot do that.
func (f *file) checkJournal() error {
	var mode string
	if err := f.writer.conn.QueryRowContext(context.Background(), "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: SQLite keeps no write-ahead log there", fsx.ErrRemote)
	}
	return nil
}

// usable returns an error if the file is not open, or the paths do not lead to the open files any
// more: the database, and its log, which others set aside if it belonged to another database.
func (f *file) usable() error {
	if f == nil {
		return os.ErrClosed
	}
	if err := sqlitestate.InPlace(f.path, f.opened); err != nil {
		return err
	}
	return sqlitestate.InPlace(f.path+"-wal", f.wal)
}

// close closes the database. The last process to do so writes the log back into it.
func (f *file) close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.reader.close(), f.writer.close())
}

// setOrphansAside gives a log without a database another name.
func setOrphansAside(path string) {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 || errors.Is(err, fs.ErrNotExist) {
		setLogAside(path)
	}
}

// setLogAside gives the log another name if it is the one of this file and another file is at
// the path: SQLite would write the one into the other.
func (f *file) setLogAside() {
	info, _ := os.Stat(f.path + "-wal")
	if os.SameFile(info, f.wal) && sqlitestate.InPlace(f.path, f.opened) != nil {
		setLogAside(f.path)
	}
}

// setLogAside gives the log of a database another name. Others may have both open still, and the
// index of the log that they have mapped would not be that of the new one.
func setLogAside(path string) {
	if err := os.Rename(path+"-wal", path+".stale-"+fsx.AsideTime()+"-wal"); err == nil {
		os.Remove(path + "-shm")
	}
}

// secureLock opens the lock again, where its file was moved or deleted.
func (l *Log) secureLock() error {
	if l.lock.Load().InPlace() == nil {
		return nil
	}
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
	return l.lock.Swap(lock).Close()
}

// recreateAfter is how long a file must be missing before it is made anew: somebody may be
// about to put it back.
const recreateAfter = time.Second

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

// usable reports whether the file is open and all right, and in place: what is written to a file
// that was just deleted is lost as if it were written before.
func (l *Log) usable() bool {
	return l.file != nil && l.damage.Load() == nil && l.lock.Load().InPlace() == nil && l.file.usable() == nil
}

// secureFile opens the file unless it is open and all right. The lock must be held.
func (l *Log) secureFile(ctx context.Context) error {
	if l.usable() {
		return nil
	}
	found := l.damage.Load()
	inPlace := l.file.usable() == nil
	if _, err := os.Stat(l.path); l.file != nil && errors.Is(err, fs.ErrNotExist) {
		if err := l.waitForFile(err); err != nil {
			return err
		}
	}
	if err := l.reading.take(ctx); err != nil {
		return err
	}
	defer l.reading.give()
	had := l.file != nil || l.othersLive()
	if l.file != nil {
		l.file.close()
		l.file.setLogAside()
		l.file = &file{path: l.path} // was open, and is not usable
	}
	if inPlace && found != nil && errors.Is(*found, errDamaged) { // which SQLite does not notice
		if err := l.setAside(*found); err != nil {
			return err
		}
	}
	f, err := l.openOrSetAside(ctx, had)
	if err != nil {
		return err
	}
	l.file, l.missing = f, time.Time{}
	l.damage.Store(nil)
	l.checkAt.Store(0)
	return l.holdLife()
}

// openOrSetAside opens the file. One that is damaged is set aside, and a new one takes its place.
func (l *Log) openOrSetAside(ctx context.Context, had bool) (f *file, err error) {
	open := func() (err error) { f, err = l.openFile(had); return err }
	if err = l.patiently(ctx, open); !isDamage(err) {
		return f, err
	}
	if err := l.setAside(err); err != nil {
		return nil, err
	}
	had = true
	err = l.patiently(ctx, open)
	return f, err
}

// setAside gives a damaged database another name, with the files that belong to it, and reports it.
func (l *Log) setAside(damage error) error {
	damage = l.explain(damage)
	name := l.path + ".corrupt-" + fsx.AsideTime()
	// The log goes last: without its database it is not used, and deleted by SQLite.
	for _, suffix := range []string{"", "-shm", "-wal"} {
		err := os.Rename(l.path+suffix, name+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return errors.Join(damage, fmt.Errorf("set aside: %w", err))
		}
	}
	if l.options.Report != nil {
		l.options.Report(fmt.Errorf("shared database was damaged and is now %s: %w", name, damage))
	}
	return nil
}

// isDamage reports whether the content of the file is damaged.
func isDamage(err error) bool { return sqlitestate.IsDamage(err) || errors.Is(err, errDamaged) }
