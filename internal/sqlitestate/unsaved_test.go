package sqlitestate_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

const span = account.Minute

// world is some accounts, by model, and what the database is known to have of them.
type world struct {
	*sqlitestate.Unsaved
	memory map[string]*account.Account
	now    account.Now
	yields int
}

func newWorld() *world {
	return &world{
		Unsaved: sqlitestate.NewUnsaved(),
		memory:  make(map[string]*account.Account),
		now:     account.Now{Instant: 1e15, Wall: 1_700_000_000e9},
	}
}

// account returns a new account in memory, whose calls in flight are limited by nothing.
func (w *world) account() *account.Account {
	a := account.New("m")
	a.SetQuota(state.Quota{MaxRPM: 10, MaxRPD: 10}, true, nil, w.now, span)
	w.memory["m"] = a
	return a
}

// charge reserves a call in a later second.
func (w *world) charge(a *account.Account, used int) *account.Call {
	w.now.Instant += int64(time.Second)
	w.now.Wall += int64(time.Second)
	c := &account.Call{Tokens: state.Count{Input: used}, At: w.now}
	c.ChargeTo(a, nil, w.now, span)
	return c
}

func (w *world) commit(c *account.Call, used int) {
	c.End(&account.Ending{How: account.Committed, Used: state.Count{Input: used}, Now: w.now, Span: span})
}

// compare returns the changes of all models.
func (w *world) compare() []*sqlitestate.Change {
	w.Begin()
	for _, is := range w.memory {
		w.Compare(is, w.now, span)
	}
	w.AddGone(w.now)
	return w.Changes()
}

func (w *world) end(ok bool) { w.End(ok, func() { w.yields++ }) }

// only returns the change of the only model that differs.
func (w *world) only(t *testing.T) *sqlitestate.Change {
	t.Helper()
	changes := w.compare()
	if len(changes) != 1 {
		t.Fatalf("%d models differ, want one", len(changes))
	}
	return changes[0]
}

// wrote checks how many entries a change adds and corrects.
func wrote(t *testing.T, c *sqlitestate.Change, added, fixes int) {
	t.Helper()
	if len(c.Requests) != added || len(c.Tokens) != added || len(c.TokenFixes) != fixes {
		t.Errorf("adds %d requests and %d tokens, and corrects %d, want %d and %d",
			len(c.Requests), len(c.Tokens), len(c.TokenFixes), added, fixes)
	}
}

// A save writes what is new since the last one that succeeded.
func TestOnlyWhatIsNew(t *testing.T) {
	w := newWorld()
	m := w.account()
	first := w.charge(m, 7)
	c := w.only(t)
	wrote(t, c, 1, 0)
	if c.Model != "m" || c.Continues || c.Forget || c.Gone || c.Tokens[0].Count != 7 || c.Day.Count != 1 || c.Zone != nil {
		t.Errorf("the first save: %+v", c)
	}
	w.end(false)
	wrote(t, w.only(t), 1, 0)
	w.end(true)
	if w.yields != 2 {
		t.Errorf("yielded %d times", w.yields)
	}
	if changes := w.compare(); len(changes) != 0 {
		t.Errorf("%d models differ after a save", len(changes))
	}
	w.end(true)

	second := w.charge(m, 8)
	w.commit(first, 5)
	c = w.only(t)
	wrote(t, c, 1, 2)
	if !c.Continues || c.TokenFixes[0].Added || c.TokenFixes[0].Value.Count != 7 || !c.TokenFixes[1].Added || c.TokenFixes[1].Value.Count != 5 {
		t.Errorf("the second save: %+v", c)
	}
	w.charge(m, 9) // while it is written
	w.end(true)
	wrote(t, w.only(t), 1, 0)
	w.end(true)
	second.End(&account.Ending{How: account.Cancelled, Now: w.now, Span: span})
	if c := w.only(t); len(c.RequestFixes) != 1 || c.RequestFixes[0].Added || c.RequestFixes[0].Value.UnixNano() != second.At.Wall || c.Day.Count != 2 {
		t.Errorf("a request is gone: %+v", c)
	}
	w.end(true)
}

// What the database has of a usage that is no more is true no more, unless that had lapsed.
func TestAnotherUsage(t *testing.T) {
	for _, after := range []struct {
		time   time.Duration
		lapsed bool
	}{{time.Minute, false}, {24*time.Hour - 1, false}, {24 * time.Hour, true}} {
		for _, is := range []string{"gone", "reset", "another"} {
			w := newWorld()
			old := w.account()
			w.charge(old, 7)
			w.compare()
			w.end(true)
			day, _ := old.StoredDay()
			w.now.Instant += int64(after.time)
			w.now.Wall += int64(after.time)
			switch is {
			case "gone":
				delete(w.memory, "m")
			case "reset":
				old.Forget(w.now)
			case "another":
				w.account()
			}
			c := w.only(t)
			if c.Gone != (is == "gone") || c.Forget == after.lapsed || c.Continues != (c.Gone && after.lapsed) {
				t.Errorf("%s after %v: %+v", is, after.time, c)
			}
			if c.Continues && c.Day != day {
				t.Errorf("the day is %+v, want %+v", c.Day, day)
			}
			w.end(true)
			if changes := w.compare(); len(changes) != 0 {
				t.Errorf("%s after %v: differs after the save", is, after.time)
			}
		}
	}
}

// A usage that is forgotten while it is written is not there any more.
func TestForgottenMeanwhile(t *testing.T) {
	for _, ok := range []bool{false, true} {
		w := newWorld()
		m := w.account()
		w.charge(m, 7)
		w.compare()
		m.Forget(account.Now{})
		w.end(ok)
		w.charge(m, 8)
		if c := w.only(t); c.Forget != ok || c.Continues || len(c.Requests) != 1 || c.Tokens[0].Count != 8 {
			t.Errorf("after a save that succeeded: %v: %+v", ok, c)
		}
		w.end(true)
	}
}

// Until the database has a cancellation, or nothing of what it has counts, the usage is not
// forgotten.
func TestOwes(t *testing.T) {
	w := newWorld()
	m := w.account()
	c := w.charge(m, 7)
	w.compare()
	w.end(true)
	c.End(&account.Ending{How: account.Cancelled, Now: w.now, Span: span})
	if end := c.At.Instant + int64(24*time.Hour); !m.Owes(w.now.Instant) || !m.Owes(end-1) || m.Owes(end) {
		t.Error("does not owe for as long as the day in the database lasts")
	}
	w.compare()
	if w.end(false); !m.Owes(w.now.Instant) {
		t.Error("does not owe after a save that failed")
	}
	w.compare()
	if w.end(true); m.Owes(w.now.Instant) {
		t.Error("owes after a save")
	}
}

func TestLoaded(t *testing.T) {
	w := newWorld()
	m := w.account()
	w.charge(m, 7)
	day, _ := m.StoredDay()
	w.Has("m", day)
	w.Loaded(m, w.now, span)
	if changes := w.compare(); len(changes) != 0 {
		t.Errorf("differs after a load: %+v", changes[0])
	}
	w.end(true)

	// Where the entries in the database are not those of memory, they are replaced.
	w.Has("m", day)
	if c := w.only(t); !c.Forget || c.Continues {
		t.Errorf("with other entries: %+v", c)
	}
	w.end(true)
	w.Has("lost", day)
	if c := w.only(t); c.Model != "lost" || !c.Gone || !c.Forget {
		t.Errorf("gone: %+v", c)
	}
}

func TestChangesAreSorted(t *testing.T) {
	w := newWorld()
	for _, model := range []string{"c", "a", "b"} {
		w.memory[model] = account.New(model)
	}
	changes := w.compare()
	if len(changes) != 3 || changes[0].Model != "a" || changes[2].Model != "c" {
		t.Errorf("%d changes, the first of %q", len(changes), changes[0].Model)
	}
	w.end(false)
	if len(w.Changes()) != 0 {
		t.Error("there are changes without a comparison")
	}
}
