//go:build nosqlite

package sqlitelog

import (
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Log stands for a log in a database: there is none without SQLite.
type Log struct{ sharedlog.Log }

// Open returns state.ErrNoSQLite.
func Open(string, Options) (*Log, error) { return nil, state.ErrNoSQLite }
