package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
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

const sharedFormat = 100

var errShared = errors.New("the database is shared by several processes: open it with Config.Shared")
