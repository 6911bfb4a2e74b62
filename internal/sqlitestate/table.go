//go:build !nosqlite

package sqlitestate

import (
	"database/sql"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// Table is the required form of a table of the database. Create and Check follow it.
type Table struct {
	Name    string
	Columns []Column // in this order; the first is the primary key where Keyed is true
	Added   []Column // behind those, in any order; a file of the original has none
	Keyed   bool
	Later   bool // a file of the original has no such table
}

// Column is a column of a table. Its values are integers unless Text or Blob is true, and all of
// them are of that type.
type Column struct {
	Name    string
	Text    bool
	Blob    bool
	Default bool // it has a default: zero, or the empty text
}

func (c *Column) kind() string {
	switch {
	case c.Text:
		return "text"
	case c.Blob:
		return "blob"
	}
	return "integer"
}

// definition is how the column is declared.
func (c *Column) definition() string {
	text := c.Name + " " + strings.ToUpper(c.kind()) + " NOT NULL"
	switch {
	case c.Default && c.Text:
		text += " DEFAULT ''"
	case c.Default:
		text += " DEFAULT 0"
	}
	return text
}

// all returns all columns.
func (t *Table) all() []Column { return append(t.Columns[:len(t.Columns):len(t.Columns)], t.Added...) }

// ColumnList returns the names of all columns, as INSERT and SELECT take them.
func (t *Table) ColumnList() string {
	var names []string
	for _, c := range t.all() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// InsertInto returns a statement that inserts values for all columns. The verb is INSERT, or
// INSERT OR and what happens to a row that is there already.
func (t *Table) InsertInto(verb string) string {
	return verb + " INTO " + t.Name + " (" + t.ColumnList() + ") VALUES (?" + strings.Repeat(", ?", len(t.all())-1) + ")"
}

// Create makes the table, with all its columns, where it is missing.
func (s *Statements) Create(t *Table) error {
	var text strings.Builder
	text.WriteString("CREATE TABLE IF NOT EXISTS " + t.Name + " (")
	for i, c := range t.all() {
		if i > 0 {
			text.WriteString(",")
		}
		if i == 0 && t.Keyed {
			text.WriteString("\n\t" + c.Name + " " + strings.ToUpper(c.kind()) + " PRIMARY KEY")
		} else {
			text.WriteString("\n\t" + c.definition())
		}
	}
	text.WriteString("\n)")
	_, err := s.Exec(text.String())
	return err
}

// addColumns adds those columns that an older version did not have; existing are those that
// the table has. The new ones are last and have defaults, so that the older version goes on
// reading and writing.
func (s *Statements) addColumns(t *Table, existing []string) error {
	has := make(map[string]bool)
	for _, name := range existing {
		has[name] = true
	}
	for _, c := range t.Added {
		if has[c.Name] {
			continue
		}
		if _, err := s.Exec("ALTER TABLE " + t.Name + " ADD COLUMN " + c.definition()); err != nil {
			return err
		}
	}
	return nil
}

// Check makes sure that a table, if it exists, is an ordinary one with our columns and no
// others, and returns the names of those that it has. It asks by PRAGMA statements, because
// the functions of the same purpose can be hidden by a table of their name.
func (s *Statements) Check(t *Table) (columns []string, err error) {
	var kind, strict string
	var n, withoutRowid int
	found, err := s.row([]any{new(string), new(string), &kind, &n, &withoutRowid, &strict},
		`PRAGMA main.table_list(`+t.Name+`)`)
	if err != nil || !found {
		return nil, err
	}
	if kind != "table" || withoutRowid != 0 || n < len(t.Columns) || n > len(t.Columns)+len(t.Added) {
		return nil, Foreign("the table %s is not ours: a %s of %d columns", t.Name, kind, n)
	}
	triggers, err := s.Number(`SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE`, t.Name)
	if err != nil {
		return nil, err
	}
	if triggers > 0 {
		return nil, Foreign("the table %s has a trigger", t.Name)
	}
	return s.checkColumns(t)
}

func (s *Statements) checkColumns(t *Table) (columns []string, err error) {
	err = s.Each(func(rows *sql.Rows) error {
		var name, kind string
		var key, hidden int
		if err := rows.Scan(new(int), &name, &kind, new(int), new(any), &key, &hidden); err != nil {
			return err
		}
		i := len(columns)
		column := t.column(i, name)
		isKey := t.Keyed && i == 0
		if column == nil || !strings.EqualFold(kind, column.kind()) || hidden != 0 || isKey != (key != 0) {
			return Foreign("the table %s is not ours: its column %q", t.Name, errtext.Clip(name))
		}
		columns = append(columns, column.Name)
		return nil
	}, `PRAGMA main.table_xinfo(`+t.Name+`)`)
	return columns, err
}

// column returns the column that is the i-th of a file, where it has that name; nil for one
// that is not ours.
func (t *Table) column(i int, name string) *Column {
	candidates := t.Added
	if i < len(t.Columns) {
		candidates = t.Columns[i : i+1]
	}
	for i := range candidates {
		if strings.EqualFold(name, candidates[i].Name) {
			return &candidates[i]
		}
	}
	return nil
}
