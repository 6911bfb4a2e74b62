package ratelimit

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

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteFormat is the newest format of the database that this version knows, as
// its user_version. 0 is a file without one, of the same tables.
const sqliteFormat = 1

// sqliteSchema is the tables, with the type that every value of a column has.
var sqliteSchema = map[string]map[string]string{
	"quotas":   {"model": "text", "max_rpm": "integer", "max_tpm": "integer", "max_rpd": "integer"},
	"requests": {"model": "text", "ts": "integer"},
	"tokens":   {"model": "text", "ts": "integer", "count": "integer"},
	"daily":    {"model": "text", "day_start": "integer", "day_count": "integer"},
}

const sqliteCreate = `
CREATE TABLE IF NOT EXISTS quotas (
	model TEXT PRIMARY KEY,
	max_rpm INTEGER NOT NULL DEFAULT 0,
	max_tpm INTEGER NOT NULL DEFAULT 0,
	max_rpd INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS requests (
	model TEXT NOT NULL,
	ts INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tokens (
	model TEXT NOT NULL,
	ts INTEGER NOT NULL,
	count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS daily (
	model TEXT PRIMARY KEY,
	day_start INTEGER NOT NULL,
	day_count INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS idx_requests_model_ts ON requests(model, ts);
CREATE INDEX IF NOT EXISTS idx_tokens_model_ts ON tokens(model, ts);
`

// busyFor is how long opening keeps trying while other processes hold the file.
const busyFor = 10 * time.Second

// openSQLite opens the database at path, and creates it where it is missing.
func openSQLite(path string) (*sqliteStore, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("open database: path is %q", path)
	}
	path = absolute(path)
	if err := prepareFile(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	started := time.Now()
	for {
		db, err := connect(path)
		if err == nil {
			return &sqliteStore{db: db}, nil
		}
		if !isBusy(err) || time.Since(started) > busyFor {
			if errors.Is(err, ErrCorruptState) {
				return nil, fmt.Errorf("open database: %w", corrupt(path, err))
			}
			return nil, fmt.Errorf("open database: %s: %w", path, err)
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
// start.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, errNotRegular)
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn builds the connection string. The path is escaped, so that nothing in it
// is taken for a parameter. The driver sets the busy timeout first: without it,
// processes that open a fresh file together fail on the change to WAL.
func dsn(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive
	}
	return "file:" + (&url.URL{Path: slashed}).EscapedPath() + "?" + url.Values{
		"_busy_timeout": {"5000"},
		"_journal_mode": {"WAL"},
		"_txlock":       {"immediate"},
		"_defensive":    {"1"},
		"_dqs":          {"0"},
		"_pragma": {
			"trusted_schema(OFF)",
			"cell_size_check(ON)",
			"mmap_size(0)",
			"journal_size_limit(8388608)",
		},
	}.Encode()
}

// connect opens, checks and, where it is empty, fills the database.
func connect(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	err = checkIntegrity(db)
	if err == nil {
		err = (&sqliteStore{db: db}).inTransaction(ensureSchema)
	}
	if err != nil {
		db.Close()
		return nil, classify(err)
	}
	return db, nil
}

func checkIntegrity(db *sql.DB) error {
	var result string
	if err := db.QueryRow(`PRAGMA quick_check(1)`).Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return damaged("%s", clip(result))
	}
	return nil
}

// ensureSchema creates the tables in an empty database, and refuses one that is
// not ours.
func ensureSchema(tx *sql.Tx) error {
	var version int
	if err := tx.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version < 0 || version > sqliteFormat {
		return damaged("format %d, this version knows up to %d", version, sqliteFormat)
	}
	ours, others, err := listTables(tx)
	if err != nil {
		return err
	}
	if ours == len(sqliteSchema) {
		return checkColumns(tx)
	}
	if ours == 0 && others > 0 {
		return damaged("a database of another program")
	}
	if _, err := tx.Exec(sqliteCreate); err != nil {
		return err
	}
	if others == 0 && ours == 0 {
		if _, err := tx.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, sqliteFormat)); err != nil {
			return err
		}
	}
	return checkColumns(tx)
}

// listTables counts the tables that are ours and those that are not, and
// refuses what runs code on ours.
func listTables(tx *sql.Tx) (ours, others int, err error) {
	rows, err := tx.Query(`SELECT type, name, tbl_name FROM sqlite_master`)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind, name, table string
		if err := rows.Scan(&kind, &name, &table); err != nil {
			return 0, 0, damaged("schema: %v", err)
		}
		_, isOurs := sqliteSchema[strings.ToLower(table)]
		switch {
		case isOurs && (kind == "trigger" || kind == "view"):
			return 0, 0, damaged("a %s on the table %s", kind, table)
		case isOurs && kind == "table":
			ours++
		case kind == "table" || kind == "view":
			others++
		}
	}
	return ours, others, rows.Err()
}

// checkColumns makes sure that our tables have the columns that we use.
func checkColumns(tx *sql.Tx) error {
	for table, columns := range sqliteSchema {
		names := make([]string, 0, len(columns))
		for column := range columns {
			names = append(names, `'`+column+`'`)
		}
		var found int
		if err := tx.QueryRow(`SELECT count(*) FROM pragma_table_info('` + table + `') WHERE name IN (` +
			strings.Join(names, ", ") + `)`).Scan(&found); err != nil {
			return err
		}
		if found != len(columns) {
			return damaged("the table %s has other columns", table)
		}
	}
	return nil
}

// damaged is a finding in the content of a database.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorruptState, fmt.Errorf(format, args...))
}

// classify gives the errors of SQLite that mean a damaged file the name that
// callers match.
func classify(err error) error {
	if code, ok := sqliteCode(err); ok && !errors.Is(err, ErrCorruptState) {
		switch code {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
			return fmt.Errorf("%w: %w", ErrCorruptState, err)
		}
	}
	return err
}

func isBusy(err error) bool {
	code, ok := sqliteCode(err)
	return ok && (code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED)
}

// sqliteCode returns the primary result code of an error of the driver.
func sqliteCode(err error) (code int, ok bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code() & 0xff, true
}
