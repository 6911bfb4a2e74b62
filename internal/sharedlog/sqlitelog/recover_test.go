//go:build !nosqlite

package sqlitelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// die makes the process of a log look as if it had been killed: its life file stays, and is
// not locked.
func die(t *testing.T, l *Log) {
	t.Helper()
	path := l.lifePath(l.options.Process)
	if err := os.Remove(path); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantOwner(t *testing.T, l *Log, process int64, want sharedlog.Liveness) {
	t.Helper()
	if got := l.Owner(process); got != want {
		t.Errorf("%s: process %d is %v, want %v", t.Name(), process, got, want)
	}
}

func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		one, other := openLog(t, path, options(1)), openLog(t, path, options(2))
		wantOwner(t, one, 2, sharedlog.Alive) // nothing is known yet
		joinLog(t, one)
		joinLog(t, other)
		wantOwner(t, one, 2, sharedlog.Alive)
		wantOwner(t, one, 3, sharedlog.Dead) // neither a life file nor a lease
		time.Sleep(11 * time.Second)
		wantOwner(t, one, 2, sharedlog.Silent)
		wantOwner(t, one, 1, sharedlog.Alive)
		s := begin(t, one, sharedlog.Everything)
		wantOwner(t, one, 2, sharedlog.Silent)
		s.Rollback()
		die(t, other)
		wantOwner(t, one, 2, sharedlog.Dead)
		if err := os.Remove(one.lifePath(2)); err != nil {
			t.Fatal(err)
		}
		wantOwner(t, one, 2, sharedlog.Dead)
		commit(t, other, begin(t, other, 0)) // renews the lease
		wantOwner(t, one, 2, sharedlog.Alive)
	})
}

// While the database knows a dead process, its life file stays: nothing else would tell that
// it is dead before its lease is over. It goes when an event has ended what the process held.
func TestLifeFilesOfTheDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	victim, one := openLog(t, path, options(1)), openLog(t, path, options(2))
	commit(t, victim, begin(t, victim, sharedlog.Everything), use(1))
	joinLog(t, one)
	unknown := openLog(t, path, options(4))
	if err := os.WriteFile(unknown.lifePath(4), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// It dies while another process reads the database.
	opener := openLog(t, path, options(3))
	s := begin(t, opener, sharedlog.Everything)
	die(t, victim)
	commit(t, opener, s)
	for _, open := range []func(){
		func() {},
		func() { joinLog(t, openLog(t, path, options(5))) },
		func() { begin(t, one, sharedlog.Everything).Rollback() },
		func() { commit(t, one, begin(t, one, 1), use(1)) },
	} {
		open()
		if life := fsx.LivenessOf(victim.lifePath(1)); life != fsx.Dead {
			t.Fatalf("the life file of the dead is %v", life)
		}
		wantOwner(t, one, 1, sharedlog.Dead)
	}
	if life := fsx.LivenessOf(unknown.lifePath(4)); life != fsx.Unknown {
		t.Errorf("the life file of a process that the database never knew is %v", life)
	}
	// So it does where only events of it are left.
	s = begin(t, one, 2)
	if _, err := one.file.writer.Exec("DELETE FROM processes WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	commit(t, one, s)
	s = begin(t, openLog(t, path, options(7)), sharedlog.Everything)
	if got := s.News().Image.Processes; !slices.Contains(got, 1) {
		t.Errorf("the processes are %v", got)
	}
	s.Rollback()
	joinLog(t, openLog(t, path, options(8)))
	if life := fsx.LivenessOf(victim.lifePath(1)); life != fsx.Dead {
		t.Fatalf("the life file of the dead is %v", life)
	}
	commit(t, one, begin(t, one, 2), &sharedlog.Event{N: 2, Kind: sharedlog.Gone, Ref: 1})
	if life := fsx.LivenessOf(victim.lifePath(1)); life != fsx.Unknown {
		t.Errorf("after all has ended the life file is %v", life)
	}
}

// A process that lives keeps its life file, even if others take it for dead.
func TestLifeFileOfTheLiving(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	victim, one := openLog(t, path, options(1)), openLog(t, path, options(2))
	joinLog(t, victim)
	joinLog(t, one)
	commit(t, one, begin(t, one, 0), &sharedlog.Event{N: 1, Kind: sharedlog.Gone, Ref: 1})
	if life := fsx.LivenessOf(victim.lifePath(1)); life != fsx.Alive {
		t.Errorf("the life file is %v", life)
	}
	joinLog(t, openLog(t, path, options(3)))
	if life := fsx.LivenessOf(victim.lifePath(1)); life != fsx.Alive {
		t.Errorf("after another has opened the file it is %v", life)
	}
}

// A file that is gone is an error for a second; then the log makes a new one.
func TestLogOfALostFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		l := openLog(t, path, options(1))
		was := joinLog(t, l).Identity
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + suffix); err != nil {
				t.Skip(err)
			}
		}
		if _, err := l.Read(t.Context(), 0); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("read: %v", err)
		}
		for _, seen := range []int64{0, sharedlog.Everything} {
			_, err := l.Begin(t.Context(), seen)
			if err == nil || !strings.HasPrefix(err.Error(), path+": database was moved or deleted while it was open: ") {
				t.Errorf("begun from %d: %v", seen, err)
			}
		}
		// Another process that opens it cannot know what was used.
		other := openLog(t, path, options(2))
		image := joinLog(t, other)
		if image.UsedWall != time.Now().UnixNano() || image.Identity == was {
			t.Errorf("the new file says %+v", image)
		}
		if image := joinLog(t, l); image.Identity == was || image.UsedWall == 0 {
			t.Errorf("the first log says %+v", image)
		}
	})
}

func TestLogMakesALostFileAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "folder")
		l := openLog(t, filepath.Join(folder, "s.db"), options(1))
		was := joinLog(t, l).Identity
		if err := os.RemoveAll(folder); err != nil {
			t.Skip(err)
		}
		began := time.Now()
		for {
			s, err := l.Begin(t.Context(), sharedlog.Everything)
			if err == nil {
				image := s.News().Image
				commit(t, l, s)
				if image.Identity == was || image.UsedWall != 0 {
					t.Errorf("the new file says %+v", image)
				}
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took < recreateAfter || took > 2*recreateAfter {
			t.Errorf("it took %v", took)
		}
	})
}

// A damaged file gets another name, and the new one says that the minute is used.
func TestLogOfADamagedFile(t *testing.T) {
	for _, freshStart := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "s.db")
		first := openLog(t, path, options(1))
		joinLog(t, first)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("garbage", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		var reported error
		l := openLog(t, path, options(2, func(o *Options) {
			o.FreshStart = freshStart
			o.Report = func(err error) { reported = err }
		}))
		s := begin(t, l, sharedlog.Everything)
		if used := s.News().Image.UsedWall != 0; used == freshStart {
			t.Errorf("with FreshStart %v the minute is used: %v", freshStart, used)
		}
		s.Rollback() // what was not written is said again
		image := joinLog(t, l)
		if (image.UsedWall != 0) == freshStart {
			t.Errorf("with FreshStart %v at the second attempt: %+v", freshStart, image)
		}
		if again := joinLog(t, l); again.UsedWall != image.UsedWall {
			t.Errorf("the minute is used until %d, and later until %d", image.UsedWall, again.UsedWall)
		}
		aside, err := filepath.Glob(path + ".corrupt-*")
		if err != nil || len(aside) == 0 {
			t.Errorf("set aside: %v, %v", aside, err)
		}
		if !errors.Is(reported, state.ErrCorrupt) || !strings.HasPrefix(reported.Error(), "shared database was damaged and is now "+path) {
			t.Errorf("reported %v", reported)
		}
	}
}

// A row that no limiter writes is named.
func TestLogRefusesBadRows(t *testing.T) {
	for _, tt := range []struct{ statement, want string }{
		{`UPDATE shared_events SET process = -1`, "shared_events: event 1 is of process -1"},
		{`UPDATE shared_events SET age = -5`, "shared_events: event 1 is -5 ns older than its time"},
		{`UPDATE shared_events SET requests = 'many'`, "shared_events: "},
		{`UPDATE shared_events SET kind = 30`, "shared_events: event 1 is of kind 30: this version does not know it"},
		{`UPDATE shared_events SET kind = 9, text = '{"MaxRPM":1,"MinRPM":2}'`, `shared_events: event 1 is of kind 9: json: unknown field "MinRPM"`},
		{`UPDATE shared_events SET kind = 21, text = '{"at":1,"until":2}'`, `shared_events: event 1 is of kind 21: json: unknown field "until"`},
		{`INSERT INTO found VALUES ('m', '{"at":1,"until":2}')`, `found of "m": found: json: unknown field "until"`},
		{`INSERT INTO processes VALUES (9, 'x', 0, 0)`, "processes: "},
		{`INSERT INTO facts VALUES ('folded', '7')`, "facts: the days are those after event 7, which is not there yet"},
		{`UPDATE facts SET value = '-1' WHERE name = 'span'`, "facts: the span is -1 ns"},
		{`UPDATE facts SET value = x'00' WHERE name = 'span'`, ""},
		{`INSERT INTO daily VALUES ('m', 1, -1, 0)`, `daily of "m": day_count is -1`},
	} {
		path := filepath.Join(t.TempDir(), "s.db")
		l := openLog(t, path, options(1))
		commit(t, l, begin(t, l, sharedlog.Everything), use(1))
		if _, err := l.file.writer.Exec(tt.statement); err != nil {
			t.Fatal(err)
		}
		s, err := l.Begin(t.Context(), sharedlog.Everything)
		if tt.want == "" && err == nil {
			s.Rollback()
			continue
		}
		if !errors.Is(err, state.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v", tt.statement, err)
		}
	}
}

// A database that one limiter had for itself becomes a shared one, with what was used, and
// is then refused to those that want it for themselves.
func TestLogTakesOverAPrivateDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	now := time.Now()
	db, err := sqlitestate.Open(path, Private)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Store(&sqlitestate.Update{
		Quotas: map[string]state.Quota{"m": {MaxRPM: 9}}, Now: now.UnixNano(), Cutoff: now.Add(-time.Hour).UnixNano(),
		Changes: []*sqlitestate.Change{{
			Model: "m", Requests: []time.Time{now}, Tokens: state.TokenList{{Time: now, Count: 5, Input: 2}},
			Day: state.DayUsage{Start: now.UnixNano(), Count: 1, Tokens: 5},
		}},
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l := openLog(t, path, options(1))
		image := joinLog(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if len(image.Events) != 2 || image.Quotas["m"].MaxRPM != 9 || image.Days["m"].Tokens != 5 {
			t.Fatalf("the log says %+v", image)
		}
		request, token := image.Events[0], image.Events[1]
		if request.Requests != 1 || request.Wall != now.UnixNano() || token.Input != 2 || token.Output != 3 || token.Process != 0 {
			t.Errorf("the events are %+v and %+v", request, token)
		}
	}
	if _, err := sqlitestate.Open(path, Private); !errors.Is(err, Private.Refused) {
		t.Errorf("opened for one limiter: %v", err)
	}
}

func TestLogBadPaths(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "a\x00b", filepath.Join(dir, "file", "s.db")} {
		if l, err := Open(path, options(1)); err == nil {
			l.Close()
			t.Errorf("opened %q", path)
		}
	}
}
