//go:build !nosqlite

package sqlitestate

import (
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

	sqlite3 "modernc.org/sqlite/lib"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// busyFor is how long opening keeps trying while other processes hold the file.
const busyFor = 10 * time.Second

// Open opens the database at path, and creates it, its folders and its tables where they
// are missing. The error wraps state.ErrCorrupt when the file is damaged, of another program
// or of a newer version; such a file stays as it is. Close the DB when it is no longer needed.
func Open(path string, formats Formats) (*DB, error) {
	return open(path, formats, func(*Statements) error { return nil })
}

// open is Open; what fill writes is stored together with the tables and columns that were
// missing, or nothing is.
func open(path string, formats Formats, fill func(*Statements) error) (*DB, error) {
	if err := fsx.CheckPath(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	path, err := PrepareFile(fsx.Absolute(path))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d := &DB{path: path, formats: formats}
	for started := time.Now(); ; {
		d.db, err = connect(path, formats, fill)
		if err == nil {
			if d.file, err = os.Stat(path); err != nil {
				d.db.Close()
				return nil, fmt.Errorf("open database: %w", err)
			}
			return d, nil
		}
		if !IsBusy(err) || time.Since(started) > busyFor {
			return nil, fmt.Errorf("open database: %w", Explain(path, err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// creating makes creating a file and closing it again one step for the whole process.
// Closing any descriptor of a database drops the locks that SQLite holds on it in this
// process.
var creating sync.Mutex

// PrepareFile makes the folder and, where it is missing, the file of a database. The file,
// and those that SQLite makes beside it, are for their owner alone from the start. It returns
// the file's own name, where path is a symbolic link. It is safe for concurrent use.
func PrepareFile(path string) (target string, err error) {
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

var errReplaced = errors.New("another file is in its place")

// InPlace returns an error if path does not lead to the open file any more. SQLite would not
// notice, and write to where nobody will look.
func InPlace(path string, file os.FileInfo) error {
	info, err := os.Stat(path)
	if err == nil && !os.SameFile(info, file) {
		err = errReplaced
	}
	if err != nil {
		return fmt.Errorf("database was moved or deleted while it was open: %w", err)
	}
	return nil
}

// basicPragmas are those of every connection.
var basicPragmas = []string{
	"trusted_schema(OFF)",
	"cell_size_check(ON)",
	"mmap_size(0)",
	"temp_store(MEMORY)", // for what takes a statement back, which is a file in /tmp otherwise
	"journal_size_limit(8388608)",
}

// Connections returns a pool of connections to the file at path. params are parameters of the
// driver, and pragmas those beside the ones that every connection has.
func Connections(path string, params url.Values, pragmas ...string) (*sql.DB, error) {
	return sql.Open("sqlite", dsn(path, params, pragmas))
}

// dsn builds a connection string. The path is escaped, so that nothing in it is taken for a
// parameter. The driver sets the busy timeout first: without it, processes that open a fresh
// file together fail on the change to WAL.
func dsn(path string, params url.Values, pragmas []string) string {
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
		"_pragma":       append(pragmas, basicPragmas...),
	}
	for key, values := range params {
		all[key] = values
	}
	return "file:" + (&url.URL{Path: slashed}).EscapedPath() + "?" + all.Encode()
}

// connect checks the database, opens it and, where it is empty, fills it.
//
// A file that is not ours must stay as it is, and already the change to WAL writes to it. So
// the first connection reads only.
func connect(path string, formats Formats, fill func(*Statements) error) (*sql.DB, error) {
	if err := Inspect(path, formats); err != nil {
		return nil, err
	}
	db, err := Connections(path, url.Values{"_journal_mode": {"WAL"}})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	err = InTransaction(db, func(s *Statements) error {
		if err := s.EnsureTables(formats); err != nil {
			return err
		}
		return fill(s)
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Inspect looks for damage in the database at path, for another program's tables, and for a
// format that is not opened. It leaves the file as it is.
//
// It takes integrity_check and not quick_check, which is four times as fast (50 ms for
// 100,000 charges): with an index that differs from its table, a Persist of some later day
// would fail, or its count be wrong. Neither can find a changed value without an index, for
// SQLite has no checksums.
func Inspect(path string, formats Formats) error {
	return InspectBy(path, func(s *Statements) error { return s.CheckSchema(formats) })
}

// InspectBy is Inspect for a database of other tables, which check looks at.
func InspectBy(path string, check func(*Statements) error) error {
	if info, err := os.Lstat(path); err == nil && info.Size() == 1 {
		return Foreign("a file of one byte, which SQLite would take for an empty one")
	}
	err := inspectWith(path, check, url.Values{"mode": {"ro"}})
	if Code(err) == sqlite3.SQLITE_READONLY {
		// A process died while it wrote the very first page, before WAL. To read the file is
		// to take that back, which is writing.
		err = inspectWith(path, check, nil)
	}
	return err
}

func inspectWith(path string, check func(*Statements) error, params url.Values) error {
	return View(path, params, func(s *Statements) error {
		var result string
		if _, err := s.row([]any{&result}, `PRAGMA integrity_check(1)`); err != nil {
			return err
		}
		if result != "ok" {
			return Damaged("%w: %s", errIntegrity, strings.TrimPrefix(result, "*** in database main ***\n"))
		}
		return check(s)
	})
}

// View runs work on the database at path in a transaction that only reads. params are parameters of
// the driver.
func View(path string, params url.Values, work func(*Statements) error) error {
	db, err := Connections(path, params)
	if err != nil {
		return err
	}
	defer db.Close()
	return readTransaction(db, work)
}
