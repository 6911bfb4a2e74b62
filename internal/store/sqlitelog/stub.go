//go:build nosqlite

package sqlitelog

import (
	"context"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Former stands for a database of an earlier format: there is none without SQLite.
type Former struct{}

var _ store.Viewer = (*Store)(nil)

// Open returns state.ErrNoSQLite.
func (s *Store) Open(context.Context, store.Options) (store.Log, error) {
	return nil, state.ErrNoSQLite
}

// View returns state.ErrNoSQLite.
func (s *Store) View(context.Context) (store.View, error) { return store.View{}, state.ErrNoSQLite }
