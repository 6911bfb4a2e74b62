//go:build !nosqlite

// Databases of earlier formats, which processes of before may have open.

package sqlitelog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// makeFormer makes an open database one of an earlier format, so that its log is that of a process
// of before.
func makeFormer(t *testing.T, l *Log, version int64) {
	t.Helper()
	for _, statement := range []string{
		fmt.Sprintf("ALTER TABLE shared_events RENAME TO %s", earlierTables[version].Name),
		fmt.Sprintf("PRAGMA user_version = %d", version),
	} {
		if _, err := l.file.writer.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

// wantRefused opens a database for a process that a process of before is in the way of.
func wantRefused(t *testing.T, path string, process int64) {
	t.Helper()
	l, err := Open(path, options(process))
	if err != nil {
		t.Fatal(err)
	}
	lives, _ := l.lives()
	if _, err := l.Begin(t.Context(), sharedlog.Everything); err == nil || !strings.Contains(err.Error(), "earlier version") {
		t.Errorf("beside a process of before: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if after, _ := l.lives(); !slices.Equal(after, lives) {
		t.Errorf("the life files are of %v, were of %v", after, lives)
	}
}

func TestFormerProcessIsInTheWay(t *testing.T) {
	for version := range earlierTables {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			first, second := openLog(t, path, options(1)), openLog(t, path, options(2))
			joinLog(t, first)
			commit(t, first, begin(t, first, 0), use(1))
			joinLog(t, second)
			makeFormer(t, first, version)
			wantRefused(t, path, 3)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, 4) // the second has charged nothing, and may
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
			if image := joinLog(t, openLog(t, path, options(5))); len(image.Events) != 1 {
				t.Errorf("taken over with %v", image.Events)
			}
			joinLog(t, openLog(t, path, options(6)))
		})
	}
}

// What dead processes have left is in nobody's way, nor are processes of this version that live.
func TestFormerProcessIsDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	dead, live := openLog(t, path, options(1)), openLog(t, path, options(2))
	joinLog(t, dead)
	makeFormer(t, dead, foundFormat)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead.lifePath(1), nil, 0o600); err != nil { // as a killed one leaves it
		t.Fatal(err)
	}
	if is := dead.livenessOf(1); is != fsx.Dead {
		t.Skipf("the process is %v", is)
	}
	if err := live.holdLife(); err != nil {
		t.Fatal(err)
	}
	joinLog(t, openLog(t, path, options(3)))
	joinLog(t, live)
}
