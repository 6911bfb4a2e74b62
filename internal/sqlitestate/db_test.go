//go:build !nosqlite

package sqlitestate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

var errExtended = errors.New("an extended database")

func openDB(t *testing.T, path string) *DB {
	t.Helper()
	d, err := Open(path, Formats{Extended: 100, Refused: errExtended})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func store(t *testing.T, d *DB, u *Update) {
	t.Helper()
	u.Now = time.Now().UnixNano()
	u.Cutoff = u.Now - int64(time.Hour)
	if err := d.Store(u); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, d *DB) *state.Snapshot {
	t.Helper()
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every limit of the table, and every other field, comes back from its own column.
func TestQuotaColumns(t *testing.T) {
	var q state.Quota
	for i, of := 0, reflect.ValueOf(&q).Elem(); i < of.NumField(); i++ {
		switch field := of.Field(i); field.Kind() {
		case reflect.String:
			field.SetString("Asia/Tokyo")
		default:
			field.SetInt(int64(100 + i))
		}
	}
	path := filepath.Join(t.TempDir(), "s.db")
	store(t, openDB(t, path), &Update{Quotas: map[string]state.Quota{"m": q}})
	d := openDB(t, path)
	if got := load(t, d).Quotas["m"]; got != q {
		t.Errorf("got %+v, want %+v", got, q)
	}
	want := "model, max_rpm, max_tpm, max_rpd, max_itpm, max_otpm, max_tpd, max_in_flight, day_zone, burst"
	if got := quotasTable.ColumnList(); got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
	n, err := statementsOnDB(t, d).Number("SELECT max_itpm FROM quotas")
	if err != nil || n != int64(q.MaxITPM) {
		t.Errorf("max_itpm is %d, %v, want %d", n, err, q.MaxITPM)
	}
}

func statementsOnDB(t *testing.T, d *DB) *Statements {
	t.Helper()
	db, err := Connections(d.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := OnConn(conn)
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Two limiters that store and load in turns see what both have written.
func TestStoreKeepsWhatOthersWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	one, other := openDB(t, path), openDB(t, path)
	now := time.Now()
	charge := func(count int) *Update {
		return &Update{Changes: []*Change{{
			Model: "m", Requests: []time.Time{now}, Tokens: []state.Token{{Time: now, Count: count, Input: 1}},
			Day: state.DayUsage{Start: now.UnixNano(), Count: 1, Tokens: int64(count)},
		}}, Cooldowns: map[string]state.Cooldown{"m": {Until: now.Add(time.Duration(count) * time.Hour), Cause: fmt.Sprint("cause_", count)}}}
	}
	store(t, one, charge(7))
	store(t, other, charge(5))
	s := load(t, one)
	got := s.Usage["m"]
	if len(got.Requests) != 2 || len(got.Tokens) != 2 || got.DayCount != 2 || got.DayTokens != 12 {
		t.Errorf("got %+v", got)
	}
	if c := s.Cooldowns["m"]; !c.Until.Equal(now.Add(7*time.Hour)) || c.Cause != "cause_7" {
		t.Errorf("cooled down until %+v", c)
	}
	// A fix of an entry that the other wrote, and then a reset of the model.
	store(t, one, &Update{Changes: []*Change{{
		Model: "m", Continues: true, Day: state.DayUsage{Start: now.UnixNano(), Count: 2, Tokens: 9},
		TokenFixes: []Fix[state.Token]{
			{Value: state.Token{Time: now, Count: 5, Input: 1}}, {Value: state.Token{Time: now, Count: 2, Input: 1}, Added: true},
		},
	}}, Cooldowns: s.Cooldowns})
	if got := load(t, other).Usage["m"]; len(got.Tokens) != 2 || got.Tokens[0].Count+got.Tokens[1].Count != 9 || got.DayTokens != 9 {
		t.Errorf("corrected to %+v", got)
	}
	store(t, one, &Update{Changes: []*Change{{Model: "m", Forget: true, Gone: true}}})
	if s := load(t, other); len(s.Usage) != 0 || len(s.Cooldowns) != 0 {
		t.Errorf("after a reset %+v, %v", s.Usage["m"], s.Cooldowns)
	}
}

func TestStoreInAnotherFilesPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	d := openDB(t, path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Skip(err)
	}
	if err := d.Store(&Update{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was moved: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Store(&Update{}); !errors.Is(err, errReplaced) {
		t.Errorf("another file: %v", err)
	}
}

func TestFormats(t *testing.T) {
	refusing := Formats{Extended: 100, Refused: errExtended}
	for _, tt := range []struct {
		version int
		formats Formats
		want    error
		text    string
	}{
		{0, refusing, nil, ""},
		{1, refusing, nil, ""},
		{100, refusing, errExtended, "s.db: an extended database"},
		{100, Formats{Extended: 100}, nil, ""},
		{2, refusing, nil, ""},
		{3, refusing, nil, ""},
		{5, Formats{Extended: 100}, state.ErrCorrupt, "format 5, this version knows up to 4 and 100"},
		{101, refusing, state.ErrCorrupt, "format 101, this version knows up to 4 and 100"},
		{100, Formats{Earliest: 100, Extended: 101, Refused: errExtended}, errExtended, "s.db: an extended database"},
		{99, Formats{Earliest: 100, Extended: 101}, state.ErrCorrupt, "format 99, this version knows up to 4 and 101"},
		{-1, refusing, state.ErrCorrupt, "format -1"},
	} {
		path := filepath.Join(t.TempDir(), "s.db")
		first := openDB(t, path)
		if err := InTransaction(first.db, func(s *Statements) error { return s.SetFormat(tt.version) }); err != nil {
			t.Fatal(err)
		}
		d, err := Open(path, tt.formats)
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("format %d: %v, want %v", tt.version, err, tt.want)
		}
		// What is open already notices it, too.
		if err := first.Store(&Update{}); errors.Is(err, errExtended) != (tt.version == 100) {
			t.Errorf("format %d: stored, %v", tt.version, err)
		}
	}
}

// A database that could not be filled is not left behind.
func TestReplaceAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	snapshot := state.NewSnapshot()
	snapshot.Quotas["m"] = state.Quota{MaxRPM: 3}
	snapshot.Usage["m"] = &state.Usage{Requests: []time.Time{time.Unix(1, 0)}, DayStart: time.Unix(1, 0), DayCount: 1}
	if err := Replace(path, Formats{Extended: 100}, snapshot); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, Formats{Extended: 100}, snapshot); err != nil {
		t.Fatal(err)
	}
	s := load(t, openDB(t, path))
	if got := s.Usage["m"]; len(s.Quotas) != 1 || len(got.Requests) != 1 || got.DayCount != 1 {
		t.Errorf("got %+v, %+v", s.Quotas, got)
	}
	missing := filepath.Join(t.TempDir(), "s.db")
	snapshot.Usage["m"] = nil // which panics once the quotas are written
	func() {
		defer func() { recover() }()
		Replace(missing, Formats{}, snapshot)
	}()
	if s := load(t, openDB(t, missing)); len(s.Quotas) != 0 {
		t.Errorf("half of it was written: %+v", s.Quotas)
	}
}
