//go:build nosqlite

package sqlitestate

import "dappco.re/go/core/go-ratelimit/internal/state"

// Enabled reports whether the program was built with SQLite.
const Enabled = false

// DB stands for a connection to a database: there is none without SQLite.
type DB struct{}

// Open returns state.ErrNoSQLite.
func Open(string, Formats) (*DB, error) { return nil, state.ErrNoSQLite }

// Replace returns state.ErrNoSQLite.
func Replace(string, Formats, *state.Snapshot) error { return state.ErrNoSQLite }

// Load returns state.ErrNoSQLite.
func (*DB) Load() (*state.Snapshot, error) { return nil, state.ErrNoSQLite }

// Store returns state.ErrNoSQLite.
func (*DB) Store(*Update) error { return state.ErrNoSQLite }

// Close returns nil.
func (*DB) Close() error { return nil }
