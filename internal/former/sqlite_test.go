//go:build !nosqlite

package former_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/replica"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/test/formertest"
)

// program is the path of a program of the commit before.
type program string

// TestSQLite is all tests of databases of the commit before.
func TestSQLite(t *testing.T) {
	p := program(formertest.Everything(t, formertest.BeforeOrder))
	t.Run("shared", p.testShared)
	t.Run("private", p.testPrivate)
	t.Run("formats", p.testFormats)
	t.Run("goes on", p.testGoesOn)
}

// start starts the program on a database.
func (p program) start(t *testing.T, how, path string) *formertest.Process {
	t.Helper()
	process, said := formertest.Start(t, string(p), how, path, "1m")
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	return process
}

// takeOver opens a database of before, and returns the state that its log begins with.
func takeOver(t *testing.T, path string) (*fleet.State, map[string]state.Answers, error) {
	t.Helper()
	var answers map[string]state.Answers
	s := &sqlitelog.Store{Path: path, TakeOver: former.SQLite(func(a map[string]state.Answers) { answers = a })}
	l, err := s.Open(t.Context(), store.Options{Process: 1})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	image, err := l.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is, err := fleet.Read(image.Bytes, nil)
	if err != nil {
		t.Fatal(err)
	}
	news, err := l.Read(t.Context(), image.At, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if late := is.TimeOf(news.Now) - is.Now().Instant; late < 0 || late > int64(time.Minute) {
		t.Errorf("the log goes on %v after its image", time.Duration(late))
	}
	return is, answers, nil
}

func (p program) testShared(t *testing.T) {
	for _, of := range []struct {
		name  string
		end   func(p *formertest.Process)
		copy  bool // another file than the one that the program has
		slots bool // its calls in flight still are
	}{
		{"closed", (*formertest.Process).End, false, false},
		{"killed", (*formertest.Process).Kill, false, false},
		{"a copy of the file", (*formertest.Process).Kill, true, true},
	} {
		t.Run(of.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "shared.db")
			process := p.start(t, "shared", path)
			process.MustDo("fill")
			if _, _, err := takeOver(t, path); err == nil || !strings.Contains(err.Error(), "earlier version has the database open") {
				t.Fatalf("beside the program of before: %v", err)
			}
			process.MustDo("reserve")
			process.MustDo("reset") // and after that it has it again
			process.MustDo("fill")
			want := process.Dump()
			if of.end(process); of.copy {
				path = copyOf(t, path)
			}
			s, answers, err := takeOver(t, path)
			if err != nil {
				t.Fatal(err)
			}
			formertest.WantSame(t, s, want, of.slots)
			if answers["m"].Count < 40 { // which are told now and then
				t.Errorf("learned %+v", answers)
			}
			if members := s.Size(); members > 0 != of.slots {
				t.Errorf("%d members", members)
			}
			for _, how := range []string{"shared", "private"} {
				_, said := formertest.Start(t, string(p), how, path, "1m")
				if !said.Corrupt || !strings.Contains(said.Error, "format 200, this version knows up to 3 and 102") {
					t.Errorf("opened again as a %s one: %+v", how, said)
				}
			}
			again, _, err := takeOver(t, path)
			if err != nil || again.Digest() != s.Digest() {
				t.Errorf("opened again: %v", err)
			}
		})
	}
}

// A process of this version goes on where those of before were: with what is left of the minute.
func (p program) testGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	process := p.start(t, "shared", path)
	process.MustDo("fill")
	process.Kill()
	s := &sqlitelog.Store{Path: path, TakeOver: former.SQLite(func(map[string]state.Answers) {})}
	l, err := s.Open(t.Context(), store.Options{Process: 9})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := replica.Open(t.Context(), replica.Options{
		Log: l, Process: 9, Lock: new(sync.Mutex), OnError: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	admitted := 0
	for range 60 {
		o, err := r.Do(t.Context(), engine.Admit{
			By:    engine.By{Span: account.Minute + int64(time.Second)},
			Wants: []engine.Want{{Name: engine.Name{Asked: "like-a", Counted: "like-a"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if admitted += len(o.Calls); len(o.Calls) == 0 && o.Verdict.Code != "rpm_exceeded" {
			t.Fatalf("refused: %+v", o.Verdict)
		}
	}
	if admitted != 39 {
		t.Errorf("%d of the 39 that are left", admitted)
	}
}

// testdata/former/shared100.db of the root is what a program left that wrote format 100.
func TestSQLiteSample(t *testing.T) {
	sample, err := os.ReadFile("../../testdata/former/shared100.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shared.db")
	if err := os.WriteFile(path, sample, 0o600); err != nil {
		t.Fatal(err)
	}
	s, answers, err := takeOver(t, path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]state.Quota{"m": {MaxTPM: 1000}, "other": {MaxRPM: 7, MaxTPD: 8, DayZone: "UTC"}} {
		if _, q, _ := s.Engine.Catalog.Cover(name); q != want {
			t.Errorf("%q has %+v, want %+v", name, q, want)
		}
	}
	if a := s.Engine.Account("cooled"); a == nil || time.Unix(0, a.CoolUntil).Year() < 2199 {
		t.Errorf("the cooldown: %+v", a)
	}
	if a := s.Engine.Account("m"); a.Used(state.TPM, s.Engine.Span(), s.Now()) != 0 || answers["m"].Count != 40 {
		t.Errorf("what is long over: %+v; learned %+v", a.Usage(), answers["m"])
	}
}

// copyOf copies a database without its life files.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// What one limiter had for itself is taken over with what nobody said in a shared one.
func (p program) testPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "private.db")
	process := p.start(t, "private", path)
	process.MustDo("fill")
	process.MustDo("persist")
	want := process.Dump()
	process.End()
	s, answers, err := takeOver(t, path)
	if err != nil {
		t.Fatal(err)
	}
	want.Classes = map[string]string{} // which no file has
	formertest.WantSame(t, s, want, false)
	if answers["m"].Count != 40 {
		t.Errorf("learned %+v", answers)
	}
}

// The formats before the last one have the same events in other tables.
func (p program) testFormats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	process := p.start(t, "shared", path)
	process.MustDo("fill")
	want := process.Dump()
	process.End()
	for format, table := range map[int]string{100: "ledger", 101: "shared_log"} {
		path := copyOf(t, path)
		alter(t, path, "ALTER TABLE shared_events RENAME TO "+table, fmt.Sprintf("PRAGMA user_version = %d", format))
		s, _, err := takeOver(t, path)
		if err != nil {
			t.Fatal(err)
		}
		formertest.WantSame(t, s, want, false)
	}
	t.Run("damaged", func(t *testing.T) {
		for what, statement := range map[string]string{
			"shared_events: event 3 is of kind 99": "UPDATE shared_events SET kind = 99 WHERE seq = 3",
			"shared_events: event 3 is 46":         "UPDATE shared_events SET age = 1 << 62 WHERE seq = 3",
			"facts: the span is -1 ns":             "UPDATE facts SET value = '-1' WHERE name = 'span'",
			"facts: the days are those after":      "INSERT OR REPLACE INTO facts VALUES ('folded', '999')",
			"classes: ":                            "UPDATE facts SET value = '{' WHERE name = 'class:'",
			`spend of "m": spent`:                  "INSERT OR REPLACE INTO spend VALUES ('m', '{}')",
		} {
			path := copyOf(t, path)
			alter(t, path, statement)
			if _, _, err := takeOver(t, path); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("want %q: %v", what, err)
			}
		}
	})
}

func alter(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
