package unsaved_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/unsaved"
)

// window is a window whose token entries are numbers.
type window struct {
	requests ring.Queue[time.Time]
	tokens   ring.Queue[int]
	day      state.DayUsage
	lapsed   bool
	saved    int // how often it was told so
}

func (w *window) Entries() (*ring.Queue[time.Time], *ring.Queue[int]) { return &w.requests, &w.tokens }
func (w *window) Day() (state.DayUsage, *time.Location)               { return w.day, time.UTC }
func (w *window) Lapsed(instant, wall int64) bool                     { return w.lapsed && instant == 1 && wall == 2 }
func (w *window) Saved()                                              { w.saved++ }

func (w *window) charge(at int64, tokens int) {
	w.requests.Push(at, time.Unix(0, at))
	w.tokens.Push(at, tokens)
	w.day.Count++
	w.day.Tokens += int64(tokens)
}

// world is some windows, by model, and what the database is known to have of them.
type world struct {
	*unsaved.Models[int, *window]
	memory map[string]*window
	yields int
}

func newWorld() *world {
	return &world{
		Models: unsaved.NewModels[int, *window](func(n int) state.Token { return state.Token{Count: n} }),
		memory: make(map[string]*window),
	}
}

// compare returns the changes of all models.
func (w *world) compare() []*sqlitestate.Change {
	w.Begin()
	for model, is := range w.memory {
		w.Compare(model, is, 1, 2)
	}
	w.AddGone(1, 2)
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
	if len(c.Requests) != added || c.Tokens.Len() != added || len(c.TokenFixes) != fixes {
		t.Errorf("adds %d requests and %d tokens, and corrects %d, want %d and %d",
			len(c.Requests), c.Tokens.Len(), len(c.TokenFixes), added, fixes)
	}
}

// A save writes what is new since the last one that succeeded.
func TestOnlyWhatIsNew(t *testing.T) {
	w, m := newWorld(), new(window)
	w.memory["m"] = m
	m.charge(10, 7)
	c := w.only(t)
	wrote(t, c, 1, 0)
	if c.Model != "m" || c.Continues || c.Forget || c.Gone || c.Tokens.At(0).Count != 7 || c.Day.Count != 1 || c.Zone != time.UTC {
		t.Errorf("the first save: %+v", c)
	}
	w.end(false)
	if m.saved != 0 {
		t.Error("saved by a write that failed")
	}
	wrote(t, w.only(t), 1, 0)
	w.end(true)
	if m.saved != 1 || w.yields != 2 {
		t.Errorf("saved %d times, yielded %d times", m.saved, w.yields)
	}
	if changes := w.compare(); len(changes) != 0 {
		t.Errorf("%d models differ after a save", len(changes))
	}
	w.end(true)

	m.charge(20, 8)
	m.tokens.Set(0, 5)
	c = w.only(t)
	wrote(t, c, 1, 2)
	if !c.Continues || c.TokenFixes[0].Added || c.TokenFixes[0].Value.Count != 7 || !c.TokenFixes[1].Added || c.TokenFixes[1].Value.Count != 5 {
		t.Errorf("the second save: %+v", c)
	}
	m.charge(30, 9) // while it is written
	w.end(true)
	if m.saved != 1 {
		t.Error("saved although it changed meanwhile")
	}
	wrote(t, w.only(t), 1, 0)
	w.end(true)
	m.requests.Remove(0)
	if c := w.only(t); len(c.RequestFixes) != 1 || c.RequestFixes[0].Added || !c.RequestFixes[0].Value.Equal(time.Unix(0, 10)) {
		t.Errorf("a request is gone: %+v", c.RequestFixes)
	}
	w.end(true)

	m.day.Count = 0
	if c := w.only(t); c.Day.Count != 0 {
		t.Errorf("the day alone: %+v", c)
	}
}

// What the database has of another window is true no more, unless that window had lapsed.
func TestAnotherWindow(t *testing.T) {
	for _, lapsed := range []bool{false, true} {
		for _, gone := range []bool{false, true} {
			w, old := newWorld(), &window{lapsed: lapsed}
			w.memory["m"] = old
			old.charge(10, 7)
			w.compare()
			w.end(true)
			if delete(w.memory, "m"); !gone {
				w.memory["m"] = new(window)
			}
			c := w.only(t)
			if c.Gone != gone || c.Forget == lapsed || c.Continues != (gone && lapsed) {
				t.Errorf("lapsed %v, gone %v: %+v", lapsed, gone, c)
			}
			if c.Continues && c.Day != old.day {
				t.Errorf("the day is %+v, want %+v", c.Day, old.day)
			}
			w.end(true)
			if changes := w.compare(); len(changes) != 0 {
				t.Errorf("lapsed %v, gone %v: differs after the save", lapsed, gone)
			}
		}
	}
}

func TestLoaded(t *testing.T) {
	w, m := newWorld(), new(window)
	m.charge(10, 7)
	w.memory["m"] = m
	w.Loaded("m", m, m.day)
	if changes := w.compare(); len(changes) != 0 {
		t.Errorf("differs after a load: %+v", changes[0])
	}
	w.end(true)

	// Where the entries in the database are not those of the window, they are replaced.
	w.Loaded("m", nil, m.day)
	m.lapsed = true
	if c := w.only(t); !c.Forget || c.Continues {
		t.Errorf("without a window: %+v", c)
	}
	w.end(true)
	w.Loaded("lost", nil, m.day)
	if c := w.only(t); c.Model != "lost" || !c.Gone || !c.Forget {
		t.Errorf("gone without a window: %+v", c)
	}
}

func TestChangesAreSorted(t *testing.T) {
	w := newWorld()
	for _, model := range []string{"c", "a", "b"} {
		w.memory[model] = new(window)
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
