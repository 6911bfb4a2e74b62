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
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteFormat is the newest format of the database that this version knows, as
// its user_version. 0 is a file without one, of the same tables.
const sqliteFormat = 1

const sqliteCreate = `
CREATE TABLE IF NOT EXISTS quotas (
	model TEXT PRIMARY KEY,
	max_rpm INTEGER NOT NULL DEFAULT 0,
	max_tpm INTEGER NOT NULL DEFAULT 0,
	max_rpd INTEGER NOT NULL DEFAULT 0,
	max_itpm INTEGER NOT NULL DEFAULT 0,
	max_otpm INTEGER NOT NULL DEFAULT 0,
	max_tpd INTEGER NOT NULL DEFAULT 0,
	max_in_flight INTEGER NOT NULL DEFAULT 0,
	day_zone TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS requests (
	model TEXT NOT NULL,
	ts INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tokens (
	model TEXT NOT NULL,
	ts INTEGER NOT NULL,
	count INTEGER NOT NULL,
	input INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS daily (
	model TEXT PRIMARY KEY,
	day_start INTEGER NOT NULL,
	day_count INTEGER NOT NULL DEFAULT 0,
	day_tokens INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS cooldowns (
	model TEXT PRIMARY KEY,
	until INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_requests_model_ts ON requests(model, ts);
CREATE INDEX IF NOT EXISTS idx_tokens_model_ts ON tokens(model, ts);
`

// sqliteTables is what sqliteCreate makes.
var sqliteTables = []sqliteTable{
	{name: "quotas", columns: []string{"model", "max_rpm", "max_tpm", "max_rpd"}, keyed: true,
		added: []string{"max_itpm", "max_otpm", "max_tpd", "max_in_flight", "day_zone"}},
	{name: "requests", columns: []string{"model", "ts"}},
	{name: "tokens", columns: []string{"model", "ts", "count"}, added: []string{"input"}},
	{name: "daily", columns: []string{"model", "day_start", "day_count"}, keyed: true, added: []string{"day_tokens"}},
	{name: "cooldowns", columns: []string{"model", "until"}, keyed: true, later: true},
}

// sqliteTable is what a table has to look like. What the original does not know
// has a default, so that the original goes on reading and writing the file.
type sqliteTable struct {
	name    string
	columns []string // in this order
	added   []string // behind those, in any order; a file of the original has none
	keyed   bool     // the first column, the model, is the primary key
	later   bool     // a file of the original has no such table
}

// columnType is the type of a column and of all its values.
func columnType(column string) string {
	if column == "model" || column == "day_zone" {
		return "text"
	}
	return "integer"
}

// columnDefinition is how an added column is declared.
func columnDefinition(column string) string {
	if columnType(column) == "text" {
		return column + " TEXT NOT NULL DEFAULT ''"
	}
	return column + " INTEGER NOT NULL DEFAULT 0"
}

// busyFor is how long opening keeps trying while other processes hold the file.
const busyFor = 10 * time.Second

// openSQLite opens the database at path, and creates it where it is missing. What
// fill writes, if anything, is stored together with the tables and columns that
// were missing, or nothing is.
func openSQLite(path string, fill func(*sql.Tx) error) (*sqliteStore, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("open database: path is %q", path)
	}
	path, err := prepareFile(absolute(path))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &sqliteStore{path: path}
	for started := time.Now(); ; {
		s.db, err = connect(path, fill)
		if err == nil {
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
	if target, err = resolveTarget(path); err != nil {
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
		"_pragma": {
			"trusted_schema(OFF)",
			"cell_size_check(ON)",
			"mmap_size(0)",
			"temp_store(MEMORY)", // what takes a statement back, a file in /tmp otherwise
			"journal_size_limit(8388608)",
		},
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
	if info, err := os.Lstat(path); err == nil && info.Size() == 1 {
		return nil, damaged("a file of one byte, which SQLite would take for an empty one")
	}
	err := inspect(path, url.Values{"mode": {"ro"}})
	if sqliteCode(err) == sqlite3.SQLITE_READONLY {
		// A process died while it wrote the very first page, before WAL. To read
		// the file is to take that back, which is writing.
		err = inspect(path, nil)
	}
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, url.Values{"_journal_mode": {"WAL"}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	err = inTransaction(db, func(tx *sql.Tx) error {
		if err := ensureSchema(tx); err != nil || fill == nil {
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
func inspect(path string, params url.Values) error {
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
		return damaged("%s", strings.TrimPrefix(result, "*** in database main ***\n"))
	}
	_, err = checkSchema(tx)
	return err
}

// ensureSchema creates what is missing in an empty database or in one of an
// older version, and refuses one that is not ours.
func ensureSchema(tx *sql.Tx) error {
	found, err := checkSchema(tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(sqliteCreate); err != nil {
		return err
	}
	if len(found) == 0 {
		_, err = tx.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, sqliteFormat))
		return err
	}
	for _, table := range sqliteTables {
		if columns, existed := found[table.name]; existed {
			if err := table.addColumns(tx, columns); err != nil {
				return fmt.Errorf("migrate %s: %w", table.name, err)
			}
		}
	}
	return nil
}

// addColumns adds the columns that an older version did not have. They are last
// and have defaults, so that the older version goes on reading and writing.
func (t sqliteTable) addColumns(tx *sql.Tx, columns []string) error {
	for _, column := range t.added {
		if slices.Contains(columns, column) {
			continue
		}
		if _, err := tx.Exec("ALTER TABLE " + t.name + " ADD COLUMN " + columnDefinition(column)); err != nil {
			return err
		}
	}
	return nil
}

// checkSchema makes sure that a database is empty or has our tables, with
// nothing that runs code on them, and returns the columns of those that it has.
// Some of ours without any of another program's are those of a process that died
// while it made them.
func checkSchema(tx *sql.Tx) (found map[string][]string, err error) {
	var version int
	if err := tx.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
		return nil, err
	}
	if version < 0 || version > sqliteFormat {
		return nil, damaged("format %d, this version knows up to %d", version, sqliteFormat)
	}
	var others int
	if err := tx.QueryRow(`SELECT count(*) FROM sqlite_master
		WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`).Scan(&others); err != nil {
		return nil, err
	}
	found = make(map[string][]string)
	complete := true
	for _, table := range sqliteTables {
		columns, err := table.check(tx)
		if err != nil {
			return nil, err
		}
		if columns != nil {
			found[table.name] = columns
		} else if !table.later {
			complete = false
		}
	}
	if others > len(found) && !complete {
		return nil, damaged("a database of another program")
	}
	return found, nil
}

// check makes sure that a table, if it exists, is an ordinary one with the
// columns that we use and no others, and returns those. It asks by PRAGMA
// statements, because the functions of the same purpose can be hidden by a table
// of their name.
func (t sqliteTable) check(tx *sql.Tx) (columns []string, err error) {
	var kind, strict string
	var n, withoutRowid int
	err = tx.QueryRow(`PRAGMA main.table_list(`+t.name+`)`).
		Scan(new(string), new(string), &kind, &n, &withoutRowid, &strict)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if kind != "table" || withoutRowid != 0 || n < len(t.columns) || n > len(t.columns)+len(t.added) {
		return nil, damaged("the table %s is not ours: a %s of %d columns", t.name, kind, n)
	}
	var triggers int
	if err := tx.QueryRow(`SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE`,
		t.name).Scan(&triggers); err != nil {
		return nil, err
	}
	if triggers > 0 {
		return nil, damaged("the table %s has a trigger", t.name)
	}
	return t.checkColumns(tx)
}

func (t sqliteTable) checkColumns(tx *sql.Tx) (columns []string, err error) {
	rows, err := tx.Query(`PRAGMA main.table_xinfo(` + t.name + `)`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		var name, kind string
		var key, hidden int
		if err := rows.Scan(new(int), &name, &kind, new(int), new(any), &key, &hidden); err != nil {
			return nil, err
		}
		column := t.column(i, name)
		isKey := t.keyed && i == 0
		if column == "" || !strings.EqualFold(kind, columnType(column)) || hidden != 0 || isKey != (key != 0) {
			return nil, damaged("the table %s is not ours: its column %q", t.name, clip(name))
		}
		columns = append(columns, column)
	}
	return columns, rows.Err()
}

// column returns what we call the i-th column of a file, which has that name
// there; "" for one that is not ours.
func (t sqliteTable) column(i int, name string) string {
	candidates := t.added
	if i < len(t.columns) {
		candidates = t.columns[i : i+1]
	}
	for _, column := range candidates {
		if strings.EqualFold(name, column) {
			return column
		}
	}
	return ""
}

// damage is a finding in the content of a database.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func damaged(format string, args ...any) error { return damage{fmt.Errorf(format, args...)} }

// explain names the file in an error, and gives those that mean a damaged file
// the name that callers match.
func (s *sqliteStore) explain(err error) error {
	if err == nil {
		return nil
	}
	found := errors.As(err, new(damage))
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		found = true
	case sqlite3.SQLITE_ERROR:
		// The statements are always the same, so it is the tables that are wrong.
		found = true
	}
	if found {
		return corrupt(s.path, printable{err})
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

// printable is an error whose text may repeat names from a damaged file, of any
// length.
type printable struct{ error }

func (p printable) Unwrap() error { return p.error }

func (p printable) Error() string {
	text := p.error.Error()
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text[:min(len(text), 600)])
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
