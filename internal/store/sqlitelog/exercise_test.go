//go:build !nosqlite

package sqlitelog

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store/storetest"
)

// TestMain has no symbolic link on the way to the temporary files, as macOS has: errors name the
// file that the link leads to, and tests compare that with their paths.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	if temp, err := filepath.EvalSymlinks(os.TempDir()); err == nil {
		os.Setenv("TMPDIR", temp)
	}
	os.Exit(m.Run())
}

func TestExercise(t *testing.T) {
	storetest.Exercise(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "s.db")
		return storetest.Place{
			Store: &Store{Path: path},
			Empty: func(t *testing.T) { remove(t, path) },
			LoseEnd: func(t *testing.T) {
				alter(t, path, "DELETE FROM log_entries WHERE seq = (SELECT max(seq) FROM log_entries)")
			},
		}
	})
}

func remove(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
}

// alter changes the database as another program would. Who does so without the lock is noticed
// within checkEvery.
func alter(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	alterNow(t, path, statement, args...)
	time.Sleep(checkEvery)
}

func alterNow(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatal(err)
	}
}
