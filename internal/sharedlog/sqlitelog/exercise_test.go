//go:build !nosqlite

package sqlitelog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// sqliteStore is a database for the suite of all logs.
type sqliteStore struct{ path string }

func (s sqliteStore) Open(t *testing.T, process, span int64, ttl time.Duration) sharedlog.Log {
	t.Helper()
	l, err := Open(s.path, options(process, func(o *Options) { o.Span, o.LeaseTTL = span, ttl }))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Kill cannot be done within a process: the lock on a life file is the process's.
func (s sqliteStore) Kill(int64) bool { return false }

func (s sqliteStore) Replace(t *testing.T) bool {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open(s.path, options(99))
	if err != nil {
		t.Fatal(err)
	}
	step, err := l.Begin(t.Context(), sharedlog.Everything)
	if err != nil {
		t.Fatal(err)
	}
	step.Rollback()
	t.Cleanup(func() { l.Close() })
	return true
}

func (s sqliteStore) Excludes() bool { return true }

func TestExercise(t *testing.T) {
	sharedlogtest.Exercise(t, func(t *testing.T) sharedlogtest.Store {
		return sqliteStore{filepath.Join(t.TempDir(), "s.db")}
	})
}
