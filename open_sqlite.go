package ratelimit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// busyFor is how long opening keeps trying while other processes hold the file.
const busyFor = 10 * time.Second

// openSQLite opens the database at path, and creates it where it is missing. What
// fill writes, if anything, is stored together with the tables and columns that
// were missing, or nothing is.
func openSQLite(path string, fill func(*sql.Tx) error) (*sqliteStore, error) {
	if err := fsx.CheckPath(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	path, err := prepareFile(fsx.Absolute(path))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &sqliteStore{path: path}
	for started := time.Now(); ; {
		s.db, err = connect(path, fill)
		if err == nil {
			if s.file, err = os.Stat(path); err != nil {
				s.db.Close()
				return nil, fmt.Errorf("open database: %w", err)
			}
			return s, nil
		}
		if !isBusy(err) || time.Since(started) > busyFor {
			return nil, fmt.Errorf("open database: %w", s.explain(err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// creating makes creating a file and closing it again one step for the whole
// process. Closing any descriptor of a database drops the locks that SQLite
// holds on it in this process.
var creating sync.Mutex

// prepareFile makes the folder and, where it is missing, the file, so that it
// and the files that SQLite makes beside it are for their owner alone from the
// start. It returns the file's own name, where path is a symbolic link.
func prepareFile(path string) (target string, err error) {
	creating.Lock()
	defer creating.Unlock()
	if target, err = fsx.Target(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return "", err
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return target, err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return target, nil // another process was faster
	}
	if err != nil {
		return "", err
	}
	return target, f.Close()
}

// basicPragmas are those of every connection.
var basicPragmas = []string{
	"trusted_schema(OFF)",
	"cell_size_check(ON)",
	"mmap_size(0)",
	"temp_store(MEMORY)", // what takes a statement back, a file in /tmp otherwise
	"journal_size_limit(8388608)",
}

// dsn builds a connection string. The path is escaped, so that nothing in it is
// taken for a parameter. The driver sets the busy timeout first: without it,
// processes that open a fresh file together fail on the change to WAL.
func dsn(path string, params url.Values) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive
	}
	all := url.Values{
		"_busy_timeout": {"5000"},
		"_txlock":       {"immediate"},
		"_defensive":    {"1"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
		"_pragma":       basicPragmas,
	}
	for key, values := range params {
		all[key] = values
	}
	return "file:" + (&url.URL{Path: slashed}).EscapedPath() + "?" + all.Encode()
}

// connect checks the database, opens it and, where it is empty, fills it.
//
// A file that is not ours must stay as it is, and already the change to WAL
// writes to it. So the first connection reads only.
func connect(path string, fill func(*sql.Tx) error) (*sql.DB, error) {
	if err := inspect(path, sqliteFormat); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, url.Values{"_journal_mode": {"WAL"}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	err = inTransaction(db, func(tx *sql.Tx) error {
		if err := ensureSchema(tx, sqliteFormat); err != nil || fill == nil {
			return err
		}
		return fill(tx)
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// inspect looks for damage in a database, and for another program's tables.
//
// It takes integrity_check and not quick_check, which is four times as fast
// (50 ms for 100,000 charges): with an index that differs from its table, a
// Persist of some later day would fail, or its count be wrong. A changed value
// without an index neither can find, for SQLite has no checksums.
func inspect(path string, newest int) error {
	if info, err := os.Lstat(path); err == nil && info.Size() == 1 {
		return foreign("a file of one byte, which SQLite would take for an empty one")
	}
	err := inspectWith(path, newest, url.Values{"mode": {"ro"}})
	if sqliteCode(err) == sqlite3.SQLITE_READONLY {
		// A process died while it wrote the very first page, before WAL. To read
		// the file is to take that back, which is writing.
		err = inspectWith(path, newest, nil)
	}
	return err
}

func inspectWith(path string, newest int, params url.Values) error {
	db, err := sql.Open("sqlite", dsn(path, params))
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var result string
	if err := tx.QueryRow(`PRAGMA integrity_check(1)`).Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return damaged("%w: %s", errIntegrity, strings.TrimPrefix(result, "*** in database main ***\n"))
	}
	_, err = checkSchema(tx, newest)
	return err
}

// damage is a finding in the content of a database.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func damaged(format string, args ...any) error { return damage{fmt.Errorf(format, args...)} }

// errIntegrity is in the damage that SQLite finds.
var errIntegrity = errors.New("integrity check")

// errForeign is in the damage of a database that may be whole, but is not ours.
var errForeign = errors.New("not a database of this library")

func foreign(format string, args ...any) error {
	return damage{fmt.Errorf("%w: "+format, append([]any{errForeign}, args...)...)}
}

func (s *sqliteStore) explain(err error) error { return explainFile(s.path, err) }

// explainFile names the file in an error, and gives those that mean a damaged file
// the name that callers match.
func explainFile(path string, err error) error {
	if err == nil {
		return nil
	}
	// The statements are always the same, so where SQLite takes one for an error it is the
	// tables that are wrong.
	if errors.As(err, new(damage)) || isDamage(err) || sqliteCode(err) == sqlite3.SQLITE_ERROR {
		return state.Corrupt(path, errtext.Printable(err))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// isDamage reports whether SQLite finds the content of the file damaged, which is not so
// of what is somebody else's.
func isDamage(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return true
	}
	return errors.Is(err, errIntegrity)
}

func isBusy(err error) bool {
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// sqliteCode returns the primary result code of an error of SQLite, and 0 for
// any other.
func sqliteCode(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
