//go:build !nosqlite

package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
)

// sharedFormat is the user_version of a database that several processes share. Who
// does not know the ledger must not write there, so it is newer than sqliteFormat, by so
// much that there is room for new formats of both.
const sharedFormat = 100

// errShared refuses a limiter that would keep a private copy of what others share.
var errShared = errors.New("the database is shared by several processes: open it with Config.Shared")

const ledgerCreate = `
CREATE TABLE IF NOT EXISTS ledger (
	seq INTEGER PRIMARY KEY,
	process INTEGER NOT NULL,
	n INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	ref INTEGER NOT NULL,
	model TEXT NOT NULL,
	wall INTEGER NOT NULL,
	mono INTEGER NOT NULL,
	age INTEGER NOT NULL,
	requests INTEGER NOT NULL,
	input INTEGER NOT NULL,
	output INTEGER NOT NULL,
	has_day INTEGER NOT NULL,
	day_start INTEGER NOT NULL,
	day_count INTEGER NOT NULL,
	day_tokens INTEGER NOT NULL,
	text TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS processes (
	id INTEGER PRIMARY KEY,
	lease INTEGER NOT NULL,
	lease_mono INTEGER NOT NULL,
	ttl INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (
	name TEXT PRIMARY KEY,
	value TEXT NOT NULL
);
`

// ledgerTables is what ledgerCreate makes.
var ledgerTables = []sqliteTable{
	{name: "ledger", columns: []string{
		"seq", "process", "n", "kind", "ref", "model", "wall", "mono", "age", "requests", "input", "output",
		"has_day", "day_start", "day_count", "day_tokens", "text",
	}, keyed: true, later: true},
	{name: "processes", columns: []string{"id", "lease", "lease_mono", "ttl"}, keyed: true, later: true},
	{name: "facts", columns: []string{"name", "value"}, keyed: true, later: true},
}

// The names in the table facts.
const (
	factFile     = "file"     // which file this is: a new one has another
	factBoot     = "boot"     // the start of the machine that the column mono is of
	factUsedWall = "used"     // until then, in UnixNano, all minutes count as used,
	factUsedMono = "usedmono" // and in the time of the machine
	factSpan     = "span"     // how long a row must be kept for the minute, in nanoseconds
	factFolded   = "folded"   // up to which place of the ledger the table daily is
)

// ensureLedger makes a database one that is shared, with the usage that it holds.
func ensureLedger(tx *sql.Tx) error {
	if err := ensureSchema(tx, sharedFormat); err != nil {
		return err
	}
	for _, table := range ledgerTables {
		if _, err := table.check(tx); err != nil {
			return err
		}
	}
	var version int
	if err := tx.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if _, err := tx.Exec(ledgerCreate); err != nil {
		return err
	}
	if version == sharedFormat {
		return nil
	}
	// Requests and tokens need not be brought together again: nobody settles them.
	const charge = `INSERT INTO ledger (process, n, kind, ref, model, wall, mono, age, requests, input, output,
			has_day, day_start, day_count, day_tokens, text) `
	for _, statement := range []string{
		charge + `SELECT 0, rowid, 1, 0, model, ts, 0, 0, 1, 0, 0, 0, 0, 0, 0, '' FROM requests ORDER BY rowid`,
		charge + `SELECT 0, -rowid, 1, 0, model, ts, 0, 0, 0, min(max(input, 0), count), count - min(max(input, 0), count),
			0, 0, 0, 0, '' FROM tokens WHERE count > 0 ORDER BY rowid`,
		`DELETE FROM requests`,
		`DELETE FROM tokens`,
		fmt.Sprintf(`PRAGMA user_version = %d`, sharedFormat),
	} {
		if _, err := tx.Exec(statement); err != nil {
			return fmt.Errorf("take over usage: %w", err)
		}
	}
	return nil
}
