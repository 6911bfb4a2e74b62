//go:build !nosqlite

package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// reports are the errors that no method returned.
type reports struct {
	mu  sync.Mutex
	all []error
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

func openLog(t *testing.T, path string, process int64, heard *reports) *Log {
	t.Helper()
	if heard == nil {
		heard = new(reports)
	}
	l, err := (&Store{Path: path}).Open(t.Context(), store.Options{Process: process, Report: heard.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.(*Log)
}

var start = store.Image{At: store.Position{Log: 5, Sum: 6, Seq: 7}, Bytes: []byte("start")}

func begin(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Begin(t.Context(), 0, start); err != nil {
		t.Fatal(err)
	}
}

func entries(from, n int64) (all []store.Entry) {
	for i := range n {
		all = append(all, store.Entry{Process: 1, N: from + i, Command: []byte("command")})
	}
	return all
}

func appendTo(t *testing.T, l *Log, after store.Position, batch ...store.Entry) store.Position {
	t.Helper()
	news, err := l.Append(t.Context(), after, batch)
	if err != nil {
		t.Fatal(err)
	}
	return news.End(after)
}

// What is changed in the file or got lost in its middle is damage, which SQLite does not see. The
// file is set aside, reported once, and what is there then is a store that had a log.
func TestAlteredRows(t *testing.T) {
	for name, statement := range map[string]string{
		"a batch":         "UPDATE log_entries SET batch = CAST(replace(CAST(batch AS TEXT), 'command', 'Command') AS BLOB) WHERE seq = 9",
		"a stamp":         "UPDATE log_entries SET wall = wall + 1 WHERE seq = 9",
		"a sum":           "UPDATE log_entries SET sum = sum + 1 WHERE seq = 9",
		"a number":        "UPDATE log_entries SET first = 8 WHERE seq = 9",
		"no batch":        "UPDATE log_entries SET batch = x'' WHERE seq = 9",
		"a row is gone":   "DELETE FROM log_entries WHERE seq = 9",
		"the first is":    "DELETE FROM log_entries WHERE seq = 8",
		"rows in between": "INSERT INTO log_entries SELECT 1000, first, prior, sum, instant, wall, batch FROM log_entries WHERE seq = 9",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "s.db")
				heard := new(reports)
				l, other := openLog(t, path, 1, heard), openLog(t, path, 2, heard)
				begin(t, l)
				at := start.At
				for n := range int64(4) {
					at = appendTo(t, l, at, entries(n, 1)...)
				}
				alter(t, path, statement)
				if news, err := other.Read(t.Context(), start.At, 0, 0); !errors.Is(err, state.ErrCorrupt) {
					t.Errorf("read %+v, error %v", news, err)
				}
				for _, l := range []*Log{other, l} {
					if _, err := l.Append(t.Context(), at, entries(9, 1)); !errors.Is(err, store.ErrLost) {
						t.Errorf("append: error %v", err)
					}
					if _, err := l.Load(t.Context()); !errors.Is(err, store.ErrLost) {
						t.Errorf("load: error %v", err)
					}
				}
				if _, err := openLog(t, path, 3, heard).Load(t.Context()); !errors.Is(err, store.ErrLost) {
					t.Errorf("load of a newcomer: error %v", err)
				}
				aside, _ := filepath.Glob(path + ".corrupt-*Z")
				if len(aside) != 1 || len(heard.all) != 1 || !strings.Contains(heard.all[0].Error(), "damaged and is now "+aside[0]) {
					t.Errorf("aside are %v, reported %v", aside, heard.all)
				}
				next := start
				next.At.Log = 77
				if err := other.Begin(t.Context(), 0, next); err != nil {
					t.Error(err)
				}
				appendTo(t, l, next.At, entries(1, 1)...)
			})
		})
	}
}

// Files that are no database of ours: damage is set aside, and what is another program's stays.
func TestOtherFiles(t *testing.T) {
	for name, test := range map[string]struct {
		content string // or
		sql     string
		aside   bool
	}{
		"garbage":         {content: strings.Repeat("garbage\n", 1000), aside: true},
		"one byte":        {content: "x"},
		"another program": {sql: "CREATE TABLE t (x)"},
		"a later format":  {sql: "PRAGMA user_version = 201"},
		"a former format": {sql: "CREATE TABLE shared_events (x); PRAGMA user_version = 102"},
		"a private one":   {sql: "CREATE TABLE requests (x); PRAGMA user_version = 3"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			if test.content != "" {
				os.WriteFile(path, []byte(test.content), 0o600)
			} else {
				alterNow(t, path, test.sql)
			}
			before, _ := os.ReadFile(path)
			heard := new(reports)
			l, err := (&Store{Path: path}).Open(t.Context(), store.Options{Process: 1, Report: heard.add})
			if test.aside {
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if _, err := l.Load(t.Context()); !errors.Is(err, store.ErrLost) || len(heard.all) != 1 {
					t.Errorf("load: error %v, reported %v", err, heard.all)
				}
				return
			}
			if !errors.Is(err, state.ErrCorrupt) {
				t.Errorf("open: error %v", err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file has changed")
			}
			if lives, _ := filepath.Glob(path + ".*.life"); len(lives) > 0 {
				t.Errorf("files stay: %v", lives)
			}
		})
	}
}

// A new file beside processes that live had a log; a new file alone never had.
func TestNewFileBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		l := openLog(t, path, 1, nil)
		if image, err := l.Load(t.Context()); err != nil || !image.IsZero() {
			t.Errorf("load: %+v, %v", image, err)
		}
		begin(t, l)
		remove(t, path)
		time.Sleep(checkEvery)
		if _, err := openLog(t, path, 2, nil).Load(t.Context()); !errors.Is(err, store.ErrLost) {
			t.Errorf("load of a newcomer: error %v", err)
		}
		if _, err := l.Read(t.Context(), start.At, 0, 0); !errors.Is(err, store.ErrLost) {
			t.Errorf("read: error %v", err)
		}
	})
}

// TestSaveBesideAnother: an image whose pieces the save of an older one has dropped is saved anew.
func TestSaveBesideAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l, other := openLog(t, path, 1, nil), openLog(t, path, 2, nil)
	begin(t, l)
	older := appendTo(t, l, start.At, entries(0, 1)...)
	newer := store.Image{At: appendTo(t, l, older, entries(1, 1)...), Bytes: []byte("newer")}
	row, err := l.stage(t.Context(), newer, func(rows, *head) error { return nil })
	if err == nil {
		err = other.Save(t.Context(), store.Image{At: older, Bytes: []byte("older")})
	}
	if err != nil {
		t.Fatal(err)
	}
	err = l.change(t.Context(), func(r rows, h *head) error { return r.show(h, row) })
	if !errors.Is(err, errDropped) {
		t.Errorf("show: %v, want %v", err, errDropped)
	}
	if err := l.Save(t.Context(), newer); err != nil {
		t.Error(err)
	}
	if image, err := other.Load(t.Context()); err != nil || image.At != newer.At {
		t.Errorf("the image is of %+v, error %v, want that of %+v", image.At, err, newer.At)
	}
}

// A file that is missing is made anew only after a while: somebody may be about to put it back.
func TestMovedAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		l := openLog(t, path, 1, nil)
		begin(t, l)
		at := appendTo(t, l, start.At, entries(1, 1)...)
		move := func(from, to string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(from+suffix, to+suffix); err != nil {
					t.Fatal(err)
				}
			}
		}
		move(path, path+".away")
		if _, err := l.Append(t.Context(), at, entries(2, 1)); !errors.Is(err, store.ErrNotWritten) || errors.Is(err, store.ErrLost) {
			t.Errorf("append: error %v", err)
		}
		time.Sleep(recreateAfter / 2)
		move(path+".away", path)
		at = appendTo(t, l, at, entries(2, 1)...)
		if news, err := l.Read(t.Context(), start.At, 0, 0); err != nil || len(news.Entries) != 2 || news.End(at) != at {
			t.Errorf("read %+v, error %v", news, err)
		}
	})
}

// A lock file that was deleted is made anew, so that processes that open later wait for it, too.
func TestLockGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		l := openLog(t, path, 1, nil)
		begin(t, l)
		if err := os.Remove(path + ".lock"); err != nil {
			t.Fatal(err)
		}
		at := appendTo(t, l, start.At, entries(1, 1)...)
		if err := l.lock.Load().InPlace(); err != nil {
			t.Error(err)
		}
		other := openLog(t, path, 2, nil)
		at = appendTo(t, other, at, entries(1, 1)...)
		if news, err := l.Read(t.Context(), start.At, 0, 0); err != nil || news.End(start.At) != at {
			t.Errorf("read %+v, error %v", news, err)
		}
	})
}

func TestPermissions(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(folder, "s.db")
	l := openLog(t, path, 1, nil)
	begin(t, l)
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, error %v", info.Mode(), err)
	}
	files, _ := os.ReadDir(folder)
	if len(files) < 6 {
		t.Errorf("there are %d files", len(files))
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, error %v", file.Name(), info.Mode(), err)
		}
	}
}

// Who waits for another process looks at its context meanwhile, and has then written nothing.
func TestContextsWhileOthersWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, 1, nil)
	begin(t, l)
	lock, err := fsx.OpenFairLock(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := lock.Lock(time.Second); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = l.Append(ctx, start.At, entries(1, 1))
	if !errors.Is(err, store.ErrNotWritten) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("append: error %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("append took %v", took)
	}
	if news, err := l.Read(t.Context(), start.At, 0, 0); err != nil || len(news.Entries) != 0 {
		t.Errorf("a read beside a writer: %+v, error %v", news, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, start.At, entries(1, 1)...)
}

// A process that is killed between mark and commit leaves a mark of an end that nobody has.
func TestMarkWithoutCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		l, other := openLog(t, path, 1, nil), openLog(t, path, 2, nil)
		begin(t, l)
		if err := l.lock.Load().SetMark(12345); err != nil {
			t.Fatal(err)
		}
		if news, err := other.Read(t.Context(), start.At, 20*time.Millisecond, 0); err != nil || len(news.Entries) > 0 {
			t.Errorf("read %+v, error %v", news, err)
		}
		at := appendTo(t, l, start.At, entries(1, 1)...)
		if news, err := other.Read(t.Context(), start.At, 20*time.Millisecond, 0); err != nil || news.End(start.At) != at {
			t.Errorf("read %+v, error %v", news, err)
		}
	})
}

func TestPrivateRefusesShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, 1, nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitestate.Open(path, Private); !errors.Is(err, Private.Refused) {
		t.Errorf("error %v", err)
	}
}

func TestDurability(t *testing.T) {
	for durability, want := range map[string]int64{"": 1, DurableProcess: 1, DurablePower: 2} {
		s := &Store{Path: filepath.Join(t.TempDir(), "s.db"), Durability: durability}
		l, err := s.Open(t.Context(), store.Options{Process: 1})
		if err != nil {
			t.Fatal(err)
		}
		if is, err := l.(*Log).file.writer.Number("PRAGMA synchronous"); err != nil || is != want {
			t.Errorf("%q: synchronous is %d, error %v, want %d", durability, is, err, want)
		}
		l.Close()
	}
	s := &Store{Path: filepath.Join(t.TempDir(), "s.db"), Durability: "maybe"}
	if _, err := s.Open(t.Context(), store.Options{Process: 1}); err == nil || !strings.Contains(err.Error(), `field Durability is "maybe"`) {
		t.Errorf("error %v", err)
	}
}

// Instants count on when the wall clock is set back, when the machine starts again, and beside
// processes that do not know its clock.
func TestStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unknown, known := newMachineClock(), newMachineClock()
		known.machine = clock.Machine{Boot: "second", Ahead: int64(time.Hour)}
		wall := time.Now().UnixNano()
		hour := int64(time.Hour)
		for name, test := range map[string]struct {
			clock *machineClock
			head  head
			want  int64
		}{
			"a new log":                 {unknown, head{last: store.Stamp{Wall: wall}}, 1},
			"the wall clock counts":     {unknown, head{last: store.Stamp{Instant: 70, Wall: wall - 5}}, 75},
			"it was set back":           {unknown, head{last: store.Stamp{Instant: 70, Wall: wall + hour}}, 70},
			"the machine counts":        {known, head{boot: "second", ahead: 9, last: store.Stamp{Instant: 70, Wall: wall - 5}}, hour + 9},
			"never back":                {known, head{boot: "second", last: store.Stamp{Instant: 2 * hour}}, 2 * hour},
			"others of another start":   {known, head{boot: "first", last: store.Stamp{Instant: 70, Wall: wall - 5}}, 75},
			"others that know no start": {known, head{last: store.Stamp{Instant: 70, Wall: wall - 5}}, 75},
		} {
			if is := test.clock.stamp(&test.head); is.Instant != test.want || is.Wall != wall {
				t.Errorf("%s: %+v, want %d", name, is, test.want)
			}
		}
	})
}
