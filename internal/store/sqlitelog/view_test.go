//go:build !nosqlite

package sqlitelog

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// content returns what is in a folder: the name, the time and the bytes of each file.
func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		bytes := []byte(nil)
		if !entry.IsDir() {
			bytes, err = os.ReadFile(path)
		}
		all[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), bytes)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unchanged returns a function that makes sure that nothing in a folder has changed.
func unchanged(t *testing.T, folder string) (check func()) {
	t.Helper()
	before := content(t, folder)
	return func() {
		t.Helper()
		after := content(t, folder)
		for path := range after {
			if _, was := before[path]; !was {
				t.Errorf("%s was made", path)
			}
		}
		for path, was := range before {
			// The connections of a process share the index; that of another process is only read.
			if after[path] != was && !strings.HasSuffix(path, "-shm") {
				t.Errorf("%s was changed", path)
			}
		}
	}
}

func viewed(t *testing.T, path string, image store.Image, n int) {
	t.Helper()
	view, err := (&Store{Path: path}).View(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	if view.Image.At != image.At || string(view.Image.Bytes) != string(image.Bytes) || len(view.Entries) != n {
		t.Errorf("image %v %q and %d entries, want %v %q and %d",
			view.Image.At, view.Image.Bytes, len(view.Entries), image.At, image.Bytes, n)
	}
	if n > 0 && view.Now.Instant < view.Entries[n-1].Stamp.Instant {
		t.Errorf("the moment %v is before that of the last entry", view.Now)
	}
}

// copied makes a copy of the files of a database that a process has open, as they are where it was
// killed.
func copied(t *testing.T, path string, suffixes ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "s.db")
	for _, suffix := range suffixes {
		bytes, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// View finds the same while a process has the database open, when it was killed, and when none has
// it open any more, and changes no file.
func TestView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, 1, nil)
	begin(t, l)
	at := appendTo(t, l, start.At, entries(1, 3)...)
	later := store.Image{At: at, Bytes: []byte(strings.Repeat("later", pieceSize/2))}
	at = appendTo(t, l, at, entries(4, 2)...)

	check := unchanged(t, filepath.Dir(path))
	viewed(t, path, start, 5)
	check()
	if err := l.Save(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	check = unchanged(t, filepath.Dir(path))
	viewed(t, path, later, 2)
	check()

	killed := copied(t, path, "", "-wal", "-shm")
	check = unchanged(t, filepath.Dir(killed))
	viewed(t, killed, later, 2)
	check()

	appendTo(t, l, at, entries(6, 1)...) // the log still works
	l.Close()
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Error("there is a log of the database")
	}
	check = unchanged(t, filepath.Dir(path))
	viewed(t, path, later, 3)
	check()
	if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check = unchanged(t, filepath.Dir(path))
	viewed(t, path, later, 3)
	check()
}

func TestViewFails(t *testing.T) {
	live := filepath.Join(t.TempDir(), "s.db")
	begin(t, openLog(t, live, 1, nil))
	text := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "s.db")
	openLog(t, empty, 1, nil).Close()
	foreign := filepath.Join(t.TempDir(), "s.db")
	alterNow(t, foreign, "CREATE TABLE other (id INTEGER PRIMARY KEY)")
	for _, tt := range []struct{ path, want string }{
		{filepath.Join(t.TempDir(), "none", "s.db"), "no such file"},
		{filepath.Dir(live), "not a regular file"},
		{text, "not a database"},
		{empty, "no limiter has used it yet"},
		{foreign, "tables of another program"},
		{formerFile(t, "102"), "earlier version (format 102)"},
		{formerFile(t, "3"), "one limiter's own (format 3)"},
		{formerFile(t, "201"), "format 201, this version knows 200"},
		{copied(t, live, "", "-wal"), "index"},
	} {
		check := func() {}
		if _, err := os.Stat(filepath.Dir(tt.path)); err == nil && tt.path != filepath.Dir(live) {
			check = unchanged(t, filepath.Dir(tt.path))
		}
		if _, err := (&Store{Path: tt.path}).View(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.path, err, tt.want)
		}
		check()
	}
}

// While processes write, come and go, each view is one of the log at some moment.
func TestViewBesideWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	first := openLog(t, path, 1, nil)
	begin(t, first)
	first.Close()
	const rounds, batches = 20, 25
	var writers sync.WaitGroup
	writers.Go(func() {
		at := start.At
		for range rounds {
			l, err := (&Store{Path: path}).Open(t.Context(), store.Options{Process: 2})
			if err != nil {
				t.Error(err)
				return
			}
			for range batches {
				news, err := l.Append(t.Context(), at, entries(1, 2))
				if err != nil {
					t.Error(err)
					return
				}
				at = news.End(at)
			}
			if err := l.Save(t.Context(), store.Image{At: at, Bytes: fmt.Appendf(nil, "image %d", at.Seq)}); err != nil {
				t.Error(err)
			}
			l.Close()
		}
	})
	last := int64(0)
	for last < start.At.Seq+2*rounds*batches && !t.Failed() {
		view, err := (&Store{Path: path}).View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("image %d", view.Image.At.Seq)
		if view.Image.At == start.At {
			want = string(start.Bytes)
		}
		if string(view.Image.Bytes) != want {
			t.Errorf("image %q, want %q", view.Image.Bytes, want)
		}
		seq := view.Image.At.Seq
		for _, e := range view.Entries {
			if seq++; e.At.Seq != seq {
				t.Fatalf("entry %d stands at %d", e.At.Seq, seq)
			}
		}
		if seq < last {
			t.Errorf("the log ends at %d, and did at %d", seq, last)
		}
		last = seq
	}
	writers.Wait()
}
