//go:build nosqlite

package former

import (
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
)

// SQLite returns what takes over no database: there is none without SQLite.
func SQLite(func(map[string]state.Answers)) func(*sqlitelog.Former) ([]byte, error) { return nil }
