//go:build !nosqlite

package ratelimit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// lockedFor is how long a change waits for its turn at the file before it does without.
const lockedFor = 3 * time.Second

// busyTimeout is how long SQLite waits by itself.
const busyTimeout = waitPiece

// ledgerFile is the open database of a ledger: a connection that writes, which belongs to
// whoever has the turn, and one that only reads, guarded by ledger.reading.
type ledgerFile struct {
	path   string
	opened os.FileInfo
	wal    os.FileInfo

	writing, reading *sql.DB
	writer, reader   *statements
}

// statements are prepared on one connection.
type statements struct {
	conn *sql.Conn
	all  map[string]*sql.Stmt
}

var background = context.Background()

func openStatements(db *sql.DB) (*statements, error) {
	conn, err := db.Conn(background)
	if err != nil {
		return nil, err
	}
	return &statements{conn: conn, all: make(map[string]*sql.Stmt)}, nil
}

// close closes the statements, which the connection would not do, and that.
func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

func (s *statements) prepared(query string) (*sql.Stmt, error) {
	if stmt := s.all[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(background, query)
	if err != nil {
		return nil, err
	}
	s.all[query] = stmt
	return stmt, nil
}

func (s *statements) exec(query string, args ...any) (sql.Result, error) {
	stmt, err := s.prepared(query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(background, args...)
}

func (s *statements) query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.prepared(query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(background, args...)
}

// Query and QueryRow make it a querier.
func (s *statements) Query(query string, args ...any) (*sql.Rows, error) {
	return s.conn.QueryContext(background, query, args...)
}

func (s *statements) QueryRow(query string, args ...any) *sql.Row {
	return s.conn.QueryRowContext(background, query, args...)
}

// each calls row for all rows of a query.
func (s *statements) each(row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// number returns the one integer that a query yields; 0 if it yields none.
func (s *statements) number(query string, args ...any) (n int64, err error) {
	err = s.each(func(rows *sql.Rows) error {
		if err := rows.Scan(&n); err != nil && sqliteCode(err) == 0 {
			return damaged("%s: %w", query, err)
		} else {
			return err
		}
	}, query, args...)
	return n, err
}

// openLedgerFile opens a database that is shared, and makes it one where it is not. The
// turn must be held in all processes.
func openLedgerFile(path, synchronous string) (*ledgerFile, error) {
	setOrphansAside(path)
	path, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	if err := inspect(path, sharedFormat); err != nil {
		return nil, err
	}
	f := &ledgerFile{path: path}
	if err := f.open(synchronous); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *ledgerFile) open(synchronous string) (err error) {
	if f.opened, err = os.Stat(f.path); err != nil {
		return err
	}
	// The turn keeps other limiters out, so whoever is in the way is another program.
	// The wait for it is in small pieces because SQLite's own knows no deadline.
	pragmas := func(more ...string) url.Values {
		return url.Values{
			"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
			"_pragma":       append(more, basicPragmas...),
		}
	}
	write := pragmas("synchronous(" + synchronous + ")")
	write.Set("_journal_mode", "WAL")
	if f.writing, err = sql.Open("sqlite", dsn(f.path, write)); err != nil {
		return err
	}
	if err := inTransaction(f.writing, ensureLedger); err != nil {
		return err
	}
	if f.writer, err = openStatements(f.writing); err != nil {
		return err
	}
	if err := f.checkJournal(); err != nil {
		return err
	}
	if f.reading, err = sql.Open("sqlite", dsn(f.path, pragmas("query_only(ON)"))); err != nil {
		return err
	}
	if f.reader, err = openStatements(f.reading); err != nil {
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

// checkJournal makes sure that the file has a write-ahead log: SQLite falls back to
// another journal, silently, where the file system cannot do that.
func (f *ledgerFile) checkJournal() error {
	var mode string
	if err := f.writer.conn.QueryRowContext(background, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: SQLite keeps no write-ahead log there", fsx.ErrRemote)
	}
	return nil
}

// inPlace returns an error if the paths do not lead to the open files any more: the
// database, and its log, which others set aside if it belonged to another database.
func (f *ledgerFile) inPlace() error {
	if err := stillAt(f.path, f.opened); err != nil {
		return err
	}
	return stillAt(f.path+"-wal", f.wal)
}

// setOrphansAside gives a log without a database another name. Others may have both open
// still, and what they have mapped of the log's index would not be that of the new one.
func setOrphansAside(path string) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := os.Rename(path+"-wal", path+".stale-"+fsx.AsideTime()+"-wal"); err == nil {
		os.Remove(path + "-shm")
	}
}

// setLogAside gives the log another name if it is the one of this file and another file
// is at the path: SQLite would write the one into the other.
func (f *ledgerFile) setLogAside() {
	info, err := os.Stat(f.path + "-wal")
	if f.wal == nil || err != nil || !os.SameFile(info, f.wal) || stillAt(f.path, f.opened) == nil {
		return
	}
	os.Rename(f.path+"-wal", f.path+".stale-"+fsx.AsideTime()+"-wal")
	os.Remove(f.path + "-shm")
}

// begin begins a transaction that writes. It waits at most that long for a program that
// does not know of turns.
func (f *ledgerFile) begin(ctx context.Context, most time.Duration) error {
	// Not by the clock, which stands still in a bubble of testing/synctest while SQLite
	// waits.
	for waited := busyTimeout; ; waited += busyTimeout {
		_, err := f.writer.exec("BEGIN IMMEDIATE")
		if err == nil || !isBusy(err) {
			return err
		}
		if _, err := timeLeft(ctx, most); err != nil {
			return err
		}
		if waited >= most {
			return fmt.Errorf("waited %v for another program: %w", waited, err)
		}
	}
}

func (f *ledgerFile) commit() error {
	_, err := f.writer.exec("COMMIT")
	if err != nil {
		f.rollback()
	}
	return err
}

// rollback ends a transaction. If it fails, there was none any more.
func (f *ledgerFile) rollback() { f.writer.exec("ROLLBACK") }

// close closes the database. The last process to do so writes the log back into it.
func (f *ledgerFile) close() error {
	if f == nil {
		return nil
	}
	var errs []error
	for _, part := range []struct {
		statements *statements
		db         *sql.DB
	}{{f.reader, f.reading}, {f.writer, f.writing}} {
		if part.statements != nil {
			errs = append(errs, part.statements.close())
		}
		if part.db != nil {
			errs = append(errs, part.db.Close())
		}
	}
	return errors.Join(errs...)
}
