//go:build !nosqlite

package sqlitelog

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// formerFile makes a database of one limiter, in which a model has a quota, and of a later format.
func formerFile(t *testing.T, version string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s.db")
	snapshot := &state.Snapshot{Quotas: map[string]state.Quota{"m": {MaxRPM: 7}}}
	if err := sqlitestate.Replace(path, Private, snapshot); err != nil {
		t.Fatal(err)
	}
	if len(version) == 3 { // it was shared
		alterNow(t, path, "CREATE TABLE processes (id INTEGER PRIMARY KEY); INSERT INTO processes VALUES (77)")
	}
	alterNow(t, path, "PRAGMA user_version = "+version)
	return path
}

// takeOver makes an image of the number of quotas, and drops their table.
func takeOver(f *Former) ([]byte, error) {
	n, err := f.Number("SELECT max_rpm FROM quotas")
	if err != nil {
		return nil, err
	}
	_, err = f.Exec("DROP TABLE quotas")
	return []byte{byte(f.Format), byte(n)}, err
}

func TestTakeOver(t *testing.T) {
	for version, number := range map[string]byte{"1": 1, "3": 3, "100": 100, "102": 102} {
		path := formerFile(t, version)
		s := &Store{Path: path, TakeOver: takeOver}
		for process := range int64(2) { // the second finds it done
			l, err := s.Open(t.Context(), store.Options{Process: process + 1})
			if err != nil {
				t.Fatal(err)
			}
			image, err := l.Load(t.Context())
			if err != nil || image.IsZero() || string(image.Bytes) != string([]byte{number, 7}) {
				t.Errorf("format %s: image %+v, error %v", version, image, err)
			}
			if _, err := l.Append(t.Context(), image.At, entries(1, 1)); err != nil {
				t.Error(err)
			}
			if is, err := l.(*Log).file.writer.Format(); err != nil || is != format {
				t.Errorf("the format is %d, error %v", is, err)
			}
			l.Close()
		}
	}
}

// A takeover that fails leaves the database as it was.
func TestTakeOverFails(t *testing.T) {
	path := formerFile(t, "102")
	broken := errors.New("broken")
	s := &Store{Path: path, TakeOver: func(f *Former) ([]byte, error) {
		takeOver(f)
		return nil, broken
	}}
	if _, err := s.Open(t.Context(), store.Options{Process: 1}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	s.TakeOver = takeOver
	l, err := s.Open(t.Context(), store.Options{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// While a process of before has the database open, what it charges would be lost.
func TestTakeOverWaitsForFormer(t *testing.T) {
	path := formerFile(t, "102")
	life, err := fsx.HoldLife(path + ".000000000000004d.life")
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{Path: path, TakeOver: takeOver}
	if _, err := s.Open(t.Context(), store.Options{Process: 1}); err == nil || !strings.Contains(err.Error(), "an earlier version has the database open") {
		t.Errorf("error %v", err)
	}
	life.Release()
	l, err := s.Open(t.Context(), store.Options{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
