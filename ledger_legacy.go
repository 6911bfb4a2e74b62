package ratelimit

// What the shared database needs of the code that internal/sqlitestate and
// internal/sharedlog/sqlitelog have in its place: it goes with ledger_file.go,
// ledger_rows.go and ledger_schema.go.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// busyFor is how long opening keeps trying while other processes hold the file.
const busyFor = 10 * time.Second

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
	day_zone TEXT NOT NULL DEFAULT '',
	burst INTEGER NOT NULL DEFAULT 0
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
		added: []string{"max_itpm", "max_otpm", "max_tpd", "max_in_flight", "day_zone", "burst"}},
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
	switch column {
	case "model", "day_zone", "text", "name", "value":
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

// ensureSchema creates what is missing in an empty database or in one of an
// older version, and refuses one that is not ours or newer than newest.
func ensureSchema(tx *sql.Tx, newest int) error {
	found, err := checkSchema(tx, newest)
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
func checkSchema(tx *sql.Tx, newest int) (found map[string][]string, err error) {
	if err := checkFormat(tx, newest); err != nil {
		return nil, err
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
		return nil, foreign("a database of another program")
	}
	return found, nil
}

// checkFormat refuses a database of a newer format than the given one.
func checkFormat(tx *sql.Tx, newest int) error {
	var version int
	if err := tx.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	switch {
	case version == sharedFormat && newest < sharedFormat:
		return errShared
	case version < 0 || version > sqliteFormat && version != newest:
		return foreign("format %d, this version knows up to %d and %d", version, sqliteFormat, sharedFormat)
	}
	return nil
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
		return nil, foreign("the table %s is not ours: a %s of %d columns", t.name, kind, n)
	}
	var triggers int
	if err := tx.QueryRow(`SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE`,
		t.name).Scan(&triggers); err != nil {
		return nil, err
	}
	if triggers > 0 {
		return nil, foreign("the table %s has a trigger", t.name)
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
			return nil, foreign("the table %s is not ours: its column %q", t.name, errtext.Clip(name))
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

// maxRows is how many rows of one table are read. A file with more is not a
// minute of calls.
const maxRows = 20_000_000

// querier is a transaction.
type querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
	QueryRow(query string, args ...any) *sql.Row
}

// rowReader reads everything in one transaction.
type rowReader struct {
	tx       querier
	snapshot *snapshot
	days     map[string]usageDay
}

// checkTypes refuses values that are of another type than their column. SQLite
// stores any value anywhere, and the driver would convert some of them silently.
func (r *rowReader) checkTypes(t sqliteTable) error {
	var wrong, field, value strings.Builder
	columns := slices.Concat(t.columns, t.added)
	for i, column := range columns {
		condition := fmt.Sprintf("typeof(%s) <> '%s'", column, columnType(column))
		if i > 0 {
			wrong.WriteString(" OR ")
		}
		wrong.WriteString(condition)
		fmt.Fprintf(&field, " WHEN %s THEN %d", condition, i)
		fmt.Fprintf(&value, " WHEN %s THEN typeof(%s) || ' ' || substr(CAST(ifnull(%[2]s, '') AS TEXT), 1, 100)", condition, column)
	}
	var model, found string
	var i int
	err := r.tx.QueryRow("SELECT substr(CAST(ifnull(model, '') AS TEXT), 1, 200), CASE"+field.String()+" END, CASE"+value.String()+
		" END FROM "+t.name+" WHERE "+wrong.String()+" LIMIT 1").Scan(&model, &i, &found)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return damaged("%s of %q: %s is %q, want %s", t.name, errtext.Clip(model), columns[i], errtext.Clip(found), columnType(columns[i]))
}

// each runs a query and visits its rows.
func (r *rowReader) each(query string, visit func(rows *sql.Rows) error) error {
	rows, err := r.tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			return damaged("more than %d rows", maxRows)
		}
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// stats returns a model's entry, without a string for its name where it has one
// already.
func (r *rowReader) stats(model []byte) *UsageStats {
	stats := r.snapshot.state[string(model)]
	if stats == nil {
		stats = &UsageStats{}
		r.snapshot.state[string(model)] = stats
	}
	return stats
}

func (r *rowReader) readQuotas() error {
	return r.each("SELECT "+quotaColumns+" FROM quotas", func(rows *sql.Rows) error {
		var model string
		var q ModelQuota
		if err := rows.Scan(&model, &q.MaxRPM, &q.MaxTPM, &q.MaxRPD,
			&q.MaxITPM, &q.MaxOTPM, &q.MaxTPD, &q.MaxInFlight, &q.DayZone, (*int64)(&q.Burst)); err != nil {
			return damaged("quotas: %w", err)
		}
		if err := q.validate(model); err != nil {
			return damaged("quotas: %w", err)
		}
		r.snapshot.quotas[model] = q
		return nil
	})
}

func (r *rowReader) readDays() error {
	return r.each("SELECT model, rowid, day_start, day_count, day_tokens FROM daily", func(rows *sql.Rows) error {
		var model string
		var rowid, start int64
		var count, tokens int
		if err := rows.Scan(&model, &rowid, &start, &count, &tokens); err != nil {
			return damaged("daily: %w", err)
		}
		if count < 0 {
			return damaged("daily of %q: day_count is %d, want 0 or more", errtext.Clip(model), count)
		}
		if tokens < 0 {
			return damaged("daily of %q: day_tokens is %d, want 0 or more", errtext.Clip(model), tokens)
		}
		stats := r.stats([]byte(model))
		stats.DayStart, stats.DayCount, stats.DayTokens = dayTime(start), count, tokens
		r.days[model] = usageDay{start: start, count: int64(count), tokens: int64(tokens), generation: generationOf(rowid)}
		return nil
	})
}

func (r *rowReader) readCooldowns() error {
	return r.each("SELECT model, until FROM cooldowns", func(rows *sql.Rows) error {
		var model string
		var until int64
		if err := rows.Scan(&model, &until); err != nil {
			return damaged("cooldowns: %w", err)
		}
		r.snapshot.cooldowns[model] = time.Unix(0, until)
		return nil
	})
}

// dayTime is the reverse of unixNano, which stores the zero time, where a model
// was never used, as the first instant that there is.
func dayTime(nanos int64) time.Time {
	if nanos == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// quotaColumns are those of the table quotas, in the order of ModelQuota.
const quotaColumns = "model, max_rpm, max_tpm, max_rpd, max_itpm, max_otpm, max_tpd, max_in_flight, day_zone, burst"

// generations is how many there are before they begin anew. Every writing gives
// a day a new rowid, larger than all others, so that those who have seen the
// database find what is new; its last bits are the generation. The schema has no
// other place for these two.
const generations = 1 << 14

func generationOf(rowid int64) int64 { return rowid & (generations - 1) }

// usageDay is a day as the database stores it, in UnixNano.
type usageDay struct {
	start         int64
	count, tokens int64 // of requests, and what these used

	// generation tells a day in the database from one that took its place: the
	// next day, or what a reset left of it.
	generation int64
}

// usageDayOf returns the day in memory.
func usageDayOf(w *window) usageDay {
	return usageDay{start: w.dayBegin, count: int64(w.dayCount()), tokens: int64(w.dayTokens())}
}

// same reports whether two days are the same, whatever their generation.
func (d usageDay) same(other usageDay) bool {
	return d.start == other.start && d.count == other.count && d.tokens == other.tokens
}

// empty reports whether there is nothing in the day.
func (d usageDay) empty() bool { return d.count <= 0 && d.tokens <= 0 }

// lastsIn reports whether the day is not over, which is so until midnight of a
// zone, or for 24 hours without one.
func (d usageDay) lastsIn(zone *time.Location, now int64) bool {
	if zone == nil {
		return d.start > now-day
	}
	_, end := clock.Day(time.Unix(0, d.start), zone)
	return clock.UnixNano(end) > now
}

// currentIn reports whether there is something in the day, and it is not over.
func (d usageDay) currentIn(zone *time.Location, now int64) bool {
	return !d.empty() && d.lastsIn(zone, now)
}

// plus returns the day with what was counted more, or less. A count never falls
// below zero.
func (d usageDay) plus(count, tokens int64) usageDay {
	d.count, d.tokens = addCounts(d.count, count), addCounts(d.tokens, tokens)
	return d
}

// addCounts adds what is to be added, which may be negative, to a count.
func addCounts(count, more int64) int64 {
	if more > 0 && count > math.MaxInt64-more {
		return math.MaxInt64
	}
	return max(count+more, 0)
}

func stillAt(path string, file os.FileInfo) error {
	info, err := os.Stat(path)
	if err == nil && !os.SameFile(info, file) {
		err = errReplaced
	}
	if err != nil {
		return fmt.Errorf("database was moved or deleted while it was open: %w", err)
	}
	return nil
}

// inTransaction runs work between BEGIN IMMEDIATE and COMMIT.
func inTransaction(db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}
