//go:build !nosqlite

package former_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/test/formertest"
	"dappco.re/go/core/go-ratelimit/money"
)

// stats is what a program of before says of a model or a pool.
type stats struct {
	RPM, TPM, ITPM, OTPM, RPD, TPD int
	InFlight                       int       `json:"in_flight"`
	DayStart                       time.Time `json:"day_start"`
	CooldownUntil                  time.Time `json:"cooldown_until"`
	AdaptiveRPM                    int       `json:"adaptive_rpm"`
	AdaptiveInFlight               int       `json:"adaptive_in_flight"`

	SpendDay   money.Amount `json:"spend_day"`
	SpendMonth money.Amount `json:"spend_month"`
}

// dumped is what a program of before says of all names.
type dumped struct {
	Stats, Pools                      map[string]stats
	Quotas, Said, PoolQuotas, Classes map[string]string
	Members                           map[string][]string
	Causes                            map[string]string
}

func statsOf(s *fleet.State, name string, now account.Now) (is stats) {
	a := s.Engine.Account(name)
	if a == nil {
		return is
	}
	for of, into := range map[state.Dimension]*int{
		state.RPM: &is.RPM, state.TPM: &is.TPM, state.ITPM: &is.ITPM, state.OTPM: &is.OTPM, state.RPD: &is.RPD, state.TPD: &is.TPD,
	} {
		*into = a.Used(of, s.Engine.Span(), now)
	}
	is.InFlight = a.InFlight
	if is.RPD > 0 || is.TPD > 0 {
		is.DayStart = time.Unix(0, a.DayBegan(now.Wall))
	}
	if a.CoolUntil > now.Wall {
		is.CooldownUntil = time.Unix(0, a.CoolUntil)
	}
	is.SpendDay, is.SpendMonth = a.Spend.OfDay(now.Wall), a.Spend.OfMonth(now.Wall)
	is.AdaptiveRPM, is.AdaptiveInFlight = a.Found.View(now).Found(now.Instant)
	return is
}

// dumpOf says what a program of before says, of the same names.
func dumpOf(s *fleet.State, like *dumped) *dumped {
	now := s.Now()
	c := s.Engine.Catalog
	is := &dumped{
		Stats: make(map[string]stats), Pools: make(map[string]stats), Quotas: make(map[string]string), Said: printed(c.Account()),
		PoolQuotas: make(map[string]string), Classes: printed(s.Engine.Classes()), Members: make(map[string][]string),
		Causes: make(map[string]string),
	}
	for name := range like.Stats {
		is.Stats[name] = statsOf(s, name, now)
		if _, q, ok := c.Cover(name); ok {
			is.Quotas[name] = fmt.Sprintf("%+v", q)
		}
		if a := s.Engine.Account(name); a != nil && a.CoolUntil > now.Wall {
			is.Causes[name] = a.CoolCause
		} else {
			is.Causes[name] = ""
		}
	}
	for _, counted := range c.PoolNames() {
		name, _ := state.PoolOf(counted)
		pool, _ := c.Pool(counted)
		is.Pools[name], is.PoolQuotas[name], is.Members[name] = statsOf(s, counted, now), fmt.Sprintf("%+v", pool.Quota), pool.Members
	}
	return is
}

func printed[V any](all map[string]V) map[string]string {
	texts := make(map[string]string)
	for name, v := range all {
		texts[name] = fmt.Sprintf("%+v", v)
	}
	return texts
}

// wantSame fails the test where two dumps differ. slots says whether calls in flight still are.
func wantSame(t *testing.T, got, want *dumped, slots bool) {
	t.Helper()
	for _, of := range []struct {
		what      string
		got, want map[string]stats
	}{{"model", got.Stats, want.Stats}, {"pool", got.Pools, want.Pools}} {
		for _, name := range slices.Sorted(maps.Keys(of.want)) {
			is, was := of.got[name], of.want[name]
			for _, at := range []*time.Time{&is.DayStart, &was.DayStart, &is.CooldownUntil, &was.CooldownUntil} {
				*at = at.UTC()
			}
			if !slots {
				was.InFlight = 0
			}
			if is != was {
				t.Errorf("%s %q:\n got %+v\nwant %+v", of.what, name, is, was)
			}
		}
	}
	for what, of := range map[string][2]map[string]string{
		"quotas": {got.Quotas, want.Quotas}, "the account": {got.Said, want.Said}, "pools": {got.PoolQuotas, want.PoolQuotas},
		"classes": {got.Classes, want.Classes}, "causes": {got.Causes, want.Causes},
	} {
		if !maps.Equal(of[0], of[1]) {
			t.Errorf("%s:\n got %v\nwant %v", what, of[0], of[1])
		}
	}
	if !maps.EqualFunc(got.Members, want.Members, slices.Equal) {
		t.Errorf("members %v, want %v", got.Members, want.Members)
	}
}

// program is a program of an earlier commit.
type program struct{ path string }

// TestSQLite is all tests of databases of the commit before.
func TestSQLite(t *testing.T) {
	source, err := os.ReadFile("testdata/former/main.go")
	if err != nil {
		t.Fatal(err)
	}
	p := program{formertest.Build(t, formertest.BeforeOrder, ".", string(source))}
	t.Run("shared", p.testShared)
	t.Run("private", p.testPrivate)
	t.Run("formats", p.testFormats)
}

// start starts the program on a database.
func (p program) start(t *testing.T, how, path string) *formertest.Process {
	t.Helper()
	process, said := formertest.Start(t, p.path, how, path)
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	return process
}

func do(t *testing.T, p *formertest.Process, order string) {
	t.Helper()
	if said := p.Do(order); said.Error != "" {
		t.Fatalf("%s: %s", order, said.Error)
	}
}

func dump(t *testing.T, p *formertest.Process) *dumped {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.json")
	do(t, p, "dump "+path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := new(dumped)
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
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
			do(t, process, "fill")
			want := dump(t, process)
			if _, _, err := takeOver(t, path); err == nil || !strings.Contains(err.Error(), "earlier version has the database open") {
				t.Fatalf("beside the program of before: %v", err)
			}
			do(t, process, "reserve")
			do(t, process, "reset") // and after that it has it again
			do(t, process, "fill")
			want = dump(t, process)
			if of.end(process); of.copy {
				path = copyOf(t, path)
			}
			s, answers, err := takeOver(t, path)
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, dumpOf(s, want), want, of.slots)
			if answers["m"].Count < 40 { // which are told now and then
				t.Errorf("learned %+v", answers)
			}
			if members := s.Size(); members > 0 != of.slots {
				t.Errorf("%d members", members)
			}
			for _, how := range []string{"shared", "private"} {
				_, said := formertest.Start(t, p.path, how, path)
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
	do(t, process, "fill")
	do(t, process, "persist")
	want := dump(t, process)
	process.End()
	s, answers, err := takeOver(t, path)
	if err != nil {
		t.Fatal(err)
	}
	want.Classes = map[string]string{} // which no file has
	wantSame(t, dumpOf(s, want), want, false)
	if answers["m"].Count != 40 {
		t.Errorf("learned %+v", answers)
	}
}

// The formats before the last one have the same events in other tables.
func (p program) testFormats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	process := p.start(t, "shared", path)
	do(t, process, "fill")
	want := dump(t, process)
	process.End()
	for format, table := range map[int]string{100: "ledger", 101: "shared_log"} {
		path := copyOf(t, path)
		alter(t, path, "ALTER TABLE shared_events RENAME TO "+table, fmt.Sprintf("PRAGMA user_version = %d", format))
		s, _, err := takeOver(t, path)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, dumpOf(s, want), want, false)
	}
	t.Run("damaged", func(t *testing.T) {
		for what, statement := range map[string]string{
			"shared_events: event 3 is of kind 99": "UPDATE shared_events SET kind = 99 WHERE seq = 3",
			"shared_events: event 3 is 1":          "UPDATE shared_events SET age = 1 << 62 WHERE seq = 3",
			"facts: the span is -1 ns":             "UPDATE facts SET value = '-1' WHERE name = 'span'",
			"facts: the days are those after":      "INSERT OR REPLACE INTO facts VALUES ('folded', '999')",
			"classes: ":                            "UPDATE facts SET value = '{' WHERE name = 'class:'",
			`spend of "m"`:                         "UPDATE spend SET spent = 'x'",
		} {
			path := copyOf(t, path)
			alter(t, path, "INSERT OR IGNORE INTO spend SELECT 'm', '{}'", statement)
			var told []error
			s := &sqlitelog.Store{Path: path, TakeOver: former.SQLite(func(map[string]state.Answers) {})}
			l, err := s.Open(t.Context(), store.Options{Process: 1, Report: func(err error) { told = append(told, err) }})
			if err == nil {
				l.Close()
			}
			if said := fmt.Sprint(told, err); !strings.Contains(said, what) {
				t.Errorf("want %q: %s", what, said)
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
