//go:build !nosqlite

package sqlitelog

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Whatever a column of a row has: the rows are refused, or read as places of the log that the state
// names.
func FuzzRows(f *testing.F) {
	columns := []struct {
		table, name string
		where       string
	}{
		{"log_state", "log", ""}, {"log_state", "had", ""}, {"log_state", "base_seq", ""}, {"log_state", "base_sum", ""},
		{"log_state", "instant", ""}, {"log_state", "wall", ""}, {"log_state", "boot", ""}, {"log_state", "ahead", ""},
		{"log_state", "image", ""}, {"log_state", "image_seq", ""}, {"log_state", "image_sum", ""}, {"log_state", "image_size", ""},
		{"log_entries", "seq", "WHERE seq = 9"}, {"log_entries", "first", "WHERE seq = 9"}, {"log_entries", "prior", "WHERE seq = 9"},
		{"log_entries", "sum", "WHERE seq = 9"}, {"log_entries", "instant", "WHERE seq = 9"}, {"log_entries", "wall", "WHERE seq = 9"},
		{"log_entries", "batch", "WHERE seq = 9"}, {"log_pieces", "id", ""}, {"log_pieces", "piece", ""},
	}
	for i := range columns {
		f.Add(byte(i), byte(0), int64(-1), []byte{})
		f.Add(byte(i), byte(0), int64(1<<62), []byte{})
		f.Add(byte(i), byte(1), int64(0), store.EncodeBatch(entries(3, 1)))
		f.Add(byte(i), byte(2), int64(0), []byte("text"))
	}
	path := filepath.Join(f.TempDir(), "s.db")
	opened, err := (&Store{Path: path}).Open(f.Context(), store.Options{Process: 1, Report: func(err error) { f.Error(err) }})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { opened.Close() })
	l := opened.(*Log)
	if err := l.Begin(f.Context(), 0, start); err != nil {
		f.Fatal(err)
	}
	at := start.At
	for n := range int64(4) {
		news, err := l.Append(f.Context(), at, entries(n, 1))
		if err != nil {
			f.Fatal(err)
		}
		at = news.End(at)
	}
	errUndo := errors.New("undo")
	f.Fuzz(func(t *testing.T, column, kind byte, number int64, data []byte) {
		c := columns[int(column)%len(columns)]
		value := []any{number, data, string(data)}[kind%3]
		err := l.write(t.Context(), func(r rows) error {
			if _, err := r.Exec("UPDATE "+c.table+" SET "+c.name+" = ? "+c.where, value); err != nil {
				return errUndo // of a type that cannot be there
			}
			readRows(t, r)
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Error(err)
		}
	})
}

// readRows reads all that is in a log.
func readRows(t *testing.T, r rows) {
	t.Helper()
	known := func(what string, err error, also ...error) bool {
		also = append(also, state.ErrCorrupt)
		if err = sqlitestate.Explain("", err); err != nil && !slices.ContainsFunc(also, func(is error) bool { return errors.Is(err, is) }) {
			t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	h, err := r.head()
	if !known("head", err) {
		return
	}
	if image, err := r.load(); known("load", err, store.ErrLost) && h.end.Log != 0 && int64(len(image.Bytes)) != h.image.size {
		t.Errorf("the image is %+v, want %+v", image, h.image)
	}
	for _, after := range []store.Position{start.At, h.base, h.end} {
		news, err := r.page(h, after)
		if !known("page", err, store.ErrLost, store.ErrTrimmed) {
			continue
		}
		for _, e := range news.Entries {
			if e.At.Log != h.end.Log || e.At.Seq <= after.Seq {
				t.Errorf("behind %+v is %+v", after, e)
			}
		}
	}
}
