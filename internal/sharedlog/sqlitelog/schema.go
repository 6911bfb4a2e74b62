//go:build !nosqlite

package sqlitelog

import (
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

type column = sqlitestate.Column

var (
	eventsTable = tableOfEvents("shared_events")
	// earlierTables have the events in databases of earlier formats.
	earlierTables = map[int64]*sqlitestate.Table{
		earliestFormat: tableOfEvents("ledger"), foundFormat: tableOfEvents("shared_log"),
	}

	processesTable = &sqlitestate.Table{
		Name:    "processes",
		Columns: []column{{Name: "id"}, {Name: "lease"}, {Name: "lease_mono"}, {Name: "ttl"}},
		Keyed:   true,
	}
	factsTable = &sqlitestate.Table{
		Name:    "facts",
		Columns: []column{{Name: "name", Text: true}, {Name: "value", Text: true}},
		Keyed:   true,
	}

	// tables are those that a Log adds to the database.
	tables = []*sqlitestate.Table{eventsTable, processesTable, factsTable}
)

func tableOfEvents(name string) *sqlitestate.Table {
	return &sqlitestate.Table{
		Name: name,
		Columns: []column{
			{Name: "seq"}, {Name: "process"}, {Name: "n"}, {Name: "kind"}, {Name: "ref"}, {Name: "model", Text: true},
			{Name: "wall"}, {Name: "mono"}, {Name: "age"}, {Name: "requests"}, {Name: "input"}, {Name: "output"},
			{Name: "has_day"}, {Name: "day_start"}, {Name: "day_count"}, {Name: "day_tokens"}, {Name: "text", Text: true},
		},
		Keyed: true,
	}
}

// upgradeOf returns what brings a database of an earlier format up to the present one. The events
// get a table of another name, so that a program of before that yieldToFormer did not see fails
// with its next statement: it does not ask for the format again. It is a copy, because SQLite
// refuses to rename a table beside a broken view of another program.
func upgradeOf(earlier *sqlitestate.Table) []string {
	return []string{
		"INSERT INTO " + eventsTable.Name + " (" + eventsTable.ColumnList() + ") SELECT " + earlier.ColumnList() +
			" FROM " + earlier.Name,
		"DROP TABLE " + earlier.Name,
	}
}

// yieldToFormer returns an error if the database at path is of an earlier format, and a process of
// before lives that has it open. That process would go on alone once the database is brought up to
// the present format, and what it charges would be lost. Any process has its lease in the database
// from when it opens that to when it closes it. A lease is no proof of life, for it also stays in a
// copy of the file.
func yieldToFormer(s *sqlitestate.Statements, path string) error {
	version, err := s.Format()
	if err != nil || earlierTables[version] == nil {
		return err
	}
	leases, err := rows{s}.readLeases()
	for _, l := range leases {
		if fsx.LivenessOf(lifePathOf(path, l.process)) == fsx.Alive {
			return fmt.Errorf("a process of an earlier version has the database open, which is of format %d: "+
				"open it when all of them have ended", version)
		}
	}
	return err
}

// takeOver makes the charges of a database that one limiter had for itself events of
// process 0. Requests and tokens need not be brought together again: nothing settles them.
var takeOver = []string{
	charge + `SELECT 0, rowid, 1, 0, model, ts, 0, 0, 1, 0, 0, 0, 0, 0, 0, '' FROM requests ORDER BY rowid`,
	charge + `SELECT 0, -rowid, 1, 0, model, ts, 0, 0, 0, min(max(input, 0), count), count - min(max(input, 0), count),
			0, 0, 0, 0, '' FROM tokens WHERE count > 0 ORDER BY rowid`,
	`DELETE FROM requests`,
	`DELETE FROM tokens`,
}

const charge = `INSERT INTO shared_events (process, n, kind, ref, model, wall, mono, age, requests, input, output,
			has_day, day_start, day_count, day_tokens, text) `

// ensureTables makes a database one that is shared, with the usage that it holds.
func ensureTables(s *sqlitestate.Statements) error {
	if err := s.EnsureTables(shared); err != nil {
		return err
	}
	version, err := s.Format()
	if err != nil {
		return err
	}
	check, earlier := tables, earlierTables[version]
	if earlier != nil {
		check = append([]*sqlitestate.Table{earlier}, tables...)
	}
	for _, table := range check {
		if _, err := s.Check(table); err != nil {
			return err
		}
	}
	for _, table := range tables {
		if err := s.Create(table); err != nil {
			return err
		}
	}
	switch {
	case version == format:
		return nil
	case earlier != nil:
		return bring(s, upgradeOf(earlier), "upgrade the events")
	default:
		return bring(s, takeOver, "take over usage")
	}
}

// bring brings a database to the present format.
func bring(s *sqlitestate.Statements, statements []string, what string) error {
	for _, statement := range statements {
		if _, err := s.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return s.SetFormat(format)
}
