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
	"strconv"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// file is the open database: a connection that writes, which belongs to the step under way,
// and one that only reads, guarded by Log.readMu.
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

// connect takes a connection out of a pool.
func connect(db *sql.DB) (*connection, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	return &connection{rows{sqlitestate.OnConn(conn)}, db, conn}, nil
}

func (c *connection) close() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.Close(), c.conn.Close(), c.db.Close())
}

// openFile opens a database that is shared, and makes it one where it is not. The lock must be
// held.
func openFile(path, durability string) (*file, error) {
	setOrphansAside(path)
	path, err := sqlitestate.PrepareFile(path)
	if err != nil {
		return nil, err
	}
	if err := sqlitestate.Inspect(path, shared); err != nil {
		return nil, err
	}
	f := &file{path: path}
	if err := f.open(durability); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *file) open(durability string) (err error) {
	if f.opened, err = os.Stat(f.path); err != nil {
		return err
	}
	if f.writer, err = openWriter(f.path, durability); err != nil {
		return err
	}
	if err := f.checkJournal(); err != nil {
		return err
	}
	if f.reader, err = openReader(f.path); err != nil {
		return err
	}
	if f.wal, err = os.Stat(f.path + "-wal"); err != nil {
		return err
	}
	if err := f.inPlace(); err != nil { // or another file may have been opened
		f.setLogAside()
		return err
	}
	return nil
}

// busyTimeout is a parameter of the driver. The lock keeps other limiters out, so that only
// another program can be in the way. The wait for it is in small pieces because SQLite's own
// knows no deadline.
var busyTimeout = []string{strconv.FormatInt(waitPiece.Milliseconds(), 10)}

// openWriter opens the connection that writes, and makes the tables where they are missing.
func openWriter(path, durability string) (*connection, error) {
	synchronous := "NORMAL"
	if durability == DurablePower {
		synchronous = "FULL"
	}
	db, err := sqlitestate.Connections(path,
		url.Values{"_busy_timeout": busyTimeout, "_journal_mode": {"WAL"}}, "synchronous("+synchronous+")")
	if err != nil {
		return nil, err
	}
	err = sqlitestate.InTransaction(db, func(s *sqlitestate.Statements) error {
		if err := yieldToFormer(s, path); err != nil {
			return err
		}
		return ensureTables(s)
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return connectOrClose(db)
}

// openReader opens the connection that only reads.
func openReader(path string) (*connection, error) {
	db, err := sqlitestate.Connections(path, url.Values{"_busy_timeout": busyTimeout}, "query_only(ON)")
	if err != nil {
		return nil, err
	}
	return connectOrClose(db)
}

func connectOrClose(db *sql.DB) (*connection, error) {
	c, err := connect(db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return c, nil
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

// inPlace returns an error if the paths do not lead to the open files any more: the
// database, and its log, which others set aside if it belonged to another database.
func (f *file) inPlace() error {
	if err := sqlitestate.InPlace(f.path, f.opened); err != nil {
		return err
	}
	return sqlitestate.InPlace(f.path+"-wal", f.wal)
}

// setOrphansAside gives a log without a database another name. Others may have both open
// still, and the index of the log that they have mapped would not be that of the new one.
func setOrphansAside(path string) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := os.Rename(path+"-wal", path+".stale-"+fsx.AsideTime()+"-wal"); err == nil {
		os.Remove(path + "-shm")
	}
}

// setLogAside gives the log another name if it is the one of this file and another file is at
// the path: SQLite would write the one into the other.
func (f *file) setLogAside() {
	info, err := os.Stat(f.path + "-wal")
	if f.wal == nil || err != nil || !os.SameFile(info, f.wal) || sqlitestate.InPlace(f.path, f.opened) == nil {
		return
	}
	os.Rename(f.path+"-wal", f.path+".stale-"+fsx.AsideTime()+"-wal")
	os.Remove(f.path + "-shm")
}

// setAside gives a damaged database another name, with the files that belong to it.
func setAside(path string) (name string, err error) {
	name = path + ".corrupt-" + fsx.AsideTime()
	// The log goes last: without its database it is not used, and deleted by SQLite.
	for _, suffix := range []string{"", "-shm", "-wal"} {
		if err := os.Rename(path+suffix, name+suffix); err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return name, fmt.Errorf("set aside: %w", err)
		}
	}
	return name, nil
}

// begin begins a transaction that writes. Another program that does not use the lock may be
// in the way.
func (f *file) begin(w wait) error {
	// Not by the clock, which stands still in a bubble of testing/synctest while SQLite waits.
	for waited := waitPiece; ; waited += waitPiece {
		_, err := f.writer.Exec("BEGIN IMMEDIATE")
		if err == nil || !sqlitestate.IsBusy(err) {
			return err
		}
		if _, ok := w.left(waitPiece); !ok {
			return w.over(forProgram, err)
		}
		if waited >= w.most {
			return w.long(forProgram, err)
		}
	}
}

func (f *file) commit() error {
	_, err := f.writer.Exec("COMMIT")
	if err != nil {
		f.rollback()
	}
	return err
}

// rollback ends a transaction. If it fails, there was none any more.
func (f *file) rollback() { f.writer.Exec("ROLLBACK") }

// close closes the database. The last process to do so writes the log back into it.
func (f *file) close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.reader.close(), f.writer.close())
}
