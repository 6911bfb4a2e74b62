//go:build !nosqlite

// SQLite: random limiters of one file against the specification of merging.

package persist

import (
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// sqliteWorld is limiters on one file as the specification has them, in sets of
// charges, which cannot be doubled or miscounted. Every charge has a number,
// which is also its tokens.
type sqliteWorld struct {
	at    []time.Time // when each charge was recorded
	file  map[string]sqliteUsage
	days  int // days that ever began in the file, to tell them apart
	minds []*sqliteMind
}

// sqliteUsage is what is stored of one model, or known of it in memory.
type sqliteUsage struct {
	charges map[int]bool
	day     sqliteDay
	row     bool // in the file: a day is there, if only one without a count
}

type sqliteDay struct {
	id      int // in the file
	start   time.Time
	charges map[int]bool
}

func (d sqliteDay) current() bool {
	return len(d.charges) > 0 && time.Since(d.start) < 24*time.Hour
}

// sqliteMind is what one limiter has in memory, what of that it has stored, and
// the file as of its last Load or Persist.
type sqliteMind struct {
	memory map[string]*sqliteUsage
	stored map[string]sqliteStored
	seen   map[string]sqliteUsage
}

type sqliteStored struct {
	entry *sqliteUsage // another one: the program made a new entry
	as    sqliteUsage
}

func (u sqliteUsage) clone() sqliteUsage {
	u.charges, u.day.charges = maps.Clone(u.charges), maps.Clone(u.day.charges)
	return u
}

func newSQLiteUsage() sqliteUsage {
	return sqliteUsage{charges: map[int]bool{}, day: sqliteDay{charges: map[int]bool{}}}
}

// live returns the charges that count to the minute.
func (w *sqliteWorld) live(charges map[int]bool) []int {
	var live []int
	for id := range charges {
		if time.Since(w.at[id]) <= time.Minute {
			live = append(live, id)
		}
	}
	slices.Sort(live)
	return live
}

func (w *sqliteWorld) lapsed(u *sqliteUsage) bool {
	return len(w.live(u.charges)) == 0 && !u.day.current()
}

func (w *sqliteWorld) record(m *sqliteMind, model string) (id int) {
	id = len(w.at)
	w.at = append(w.at, time.Now())
	u := m.memory[model]
	if u == nil {
		fresh := newSQLiteUsage()
		u = &fresh
		m.memory[model] = u
	}
	if !u.day.current() {
		u.day = sqliteDay{start: time.Now(), charges: map[int]bool{}}
	}
	u.charges[id], u.day.charges[id] = true, true
	return id
}

// look forgets, in memory, what is over.
func (w *sqliteWorld) look(m *sqliteMind) {
	maps.DeleteFunc(m.memory, func(_ string, u *sqliteUsage) bool { return w.lapsed(u) })
}

func (w *sqliteWorld) load(m *sqliteMind) {
	m.memory, m.stored = map[string]*sqliteUsage{}, map[string]sqliteStored{}
	for model, u := range w.file {
		if len(u.charges) == 0 && !u.row {
			continue
		}
		entry := u.clone()
		m.memory[model] = &entry
		m.stored[model] = sqliteStored{&entry, u.clone()}
	}
	m.seen = w.see(m)
}

// see returns the file as a limiter then knows it: it shows that a day is there,
// and does not show that one went.
func (w *sqliteWorld) see(m *sqliteMind) map[string]sqliteUsage {
	seen := map[string]sqliteUsage{}
	for model, u := range w.file {
		u = u.clone()
		if len(u.day.charges) == 0 {
			u.day = m.seen[model].day
		}
		seen[model] = u
	}
	return seen
}

func (w *sqliteWorld) persist(m *sqliteMind) {
	before := w.see(m)
	defer func() {
		m.seen = before
		m.seen = w.see(m)
	}()
	for model, u := range w.file { // what is long over is swept away
		maps.DeleteFunc(u.charges, func(id int, _ bool) bool { return time.Since(w.at[id]) > 2*time.Minute })
		if time.Since(u.day.start) > 24*time.Hour+2*time.Minute {
			u.day.charges, u.row = map[int]bool{}, false
			w.file[model] = u
		}
	}
	for model, stored := range m.stored {
		if m.memory[model] == nil {
			if !w.lapsed(stored.entry) {
				w.forget(m, model)
			}
			if file := w.file[model]; !file.day.current() {
				file.row, file.day.charges = false, map[int]bool{}
				w.file[model] = file
			}
			delete(m.stored, model)
		}
	}
	for model, u := range m.memory {
		stored, was := m.stored[model]
		same := was && stored.entry == u
		if was && !same && !w.lapsed(stored.entry) {
			w.forget(m, model)
		}
		file, ok := w.file[model]
		if !ok {
			file = newSQLiteUsage()
		}
		written := newSQLiteUsage()
		if same {
			written = stored.as
		}
		if same && maps.Equal(u.charges, written.charges) && maps.Equal(u.day.charges, written.day.charges) {
			continue
		}
		for id := range u.charges {
			if !written.charges[id] {
				file.charges[id] = true
			}
		}
		file.day, file.row = w.mergeDay(file.day, u.day, written.day, m.seen[model].day), true
		w.file[model] = file
		m.stored[model] = sqliteStored{u, u.clone()}
	}
}

// forget takes away what the limiter has seen of a model.
func (w *sqliteWorld) forget(m *sqliteMind, model string) {
	file, seen := w.file[model], m.seen[model]
	maps.DeleteFunc(file.charges, func(id int, _ bool) bool { return seen.charges[id] })
	if file.day.id == seen.day.id {
		maps.DeleteFunc(file.day.charges, func(id int, _ bool) bool { return seen.day.charges[id] })
		w.days++
		file.day.id = w.days
		w.file[model] = file
	}
}

func (w *sqliteWorld) mergeDay(file, mine, written, seen sqliteDay) sqliteDay {
	same := written.start.Equal(mine.start) && len(written.charges) > 0
	fresh := maps.Clone(mine.charges)
	maps.DeleteFunc(fresh, func(id int, _ bool) bool { return same && written.charges[id] })
	switch {
	case !file.current():
		w.days++
		if same && len(file.charges) == 0 && seen.current() {
			return sqliteDay{w.days, mine.start, fresh}
		}
		return sqliteDay{w.days, mine.start, maps.Clone(mine.charges)}
	case !mine.current():
		return file
	}
	maps.Copy(file.charges, fresh)
	if !same && mine.start.Before(file.start) {
		file.start = mine.start
	}
	return file
}

// check compares the file with what it should be.
func (w *sqliteWorld) check(t *testing.T, db *sql.DB) error {
	t.Helper()
	stored := map[string]map[string][]string{"requests": {}, "tokens": {}, "daily": {}}
	for table, columns := range map[string]string{"requests": "ts", "tokens": "ts || ' ' || count", "daily": "day_start || ' ' || day_count"} {
		for _, row := range statefile.Rows(t, db, "SELECT model, "+columns+" FROM "+table) {
			model, value, _ := strings.Cut(row, " ")
			first, _, _ := strings.Cut(value, " ")
			nanos, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Since(time.Unix(0, nanos)); age <= time.Minute || table == "daily" && age < 24*time.Hour {
				stored[table][model] = append(stored[table][model], value)
			}
		}
	}
	want := map[string]map[string][]string{"requests": {}, "tokens": {}, "daily": {}}
	for model, u := range w.file {
		for _, id := range w.live(u.charges) {
			nanos := w.at[id].UnixNano()
			want["requests"][model] = append(want["requests"][model], fmt.Sprint(nanos))
			want["tokens"][model] = append(want["tokens"][model], fmt.Sprint(nanos, id))
		}
		if u.day.current() {
			want["daily"][model] = []string{fmt.Sprint(u.day.start.UnixNano(), len(u.day.charges))}
		}
	}
	for table, models := range stored {
		for model, rows := range models {
			slices.Sort(rows)
			if table == "daily" && strings.HasSuffix(rows[0], " 0") {
				delete(models, model)
			}
		}
		for _, rows := range want[table] {
			slices.Sort(rows)
		}
		if !maps.EqualFunc(models, want[table], slices.Equal[[]string]) {
			return fmt.Errorf("%s: %q, want %q", table, models, want[table])
		}
	}
	return nil
}

// Two or three limiters that record, load, persist and reset in random order on
// one file, for days, lose nothing that another wrote, and double nothing.
func TestSQLiteLimitersAgreeWithTheSpecification(t *testing.T) {
	t.Parallel()
	for seed := range racetest.Seeds(t, 12) {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sqliteRandomWalk(t, seed) })
		}) {
			break
		}
	}
}

func sqliteRandomWalk(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	path := statefile.Path(t)
	w := &sqliteWorld{file: map[string]sqliteUsage{}}
	var limiters []*ratelimit.RateLimiter
	for range 2 + rnd.IntN(2) {
		limiters = append(limiters, sqliteLimiter(t, path))
		w.minds = append(w.minds, &sqliteMind{memory: map[string]*sqliteUsage{}, stored: map[string]sqliteStored{}})
	}
	db := statefile.Open(t, path)
	models := []string{"m", "n"}[:1+rnd.IntN(2)]
	var log []string
	for range 60 {
		// Half of the seeds stay within a day, where every count has to add up.
		pauses := []time.Duration{time.Millisecond, time.Millisecond, time.Second, 20 * time.Second, 50 * time.Second, 10 * time.Minute}
		if seed%2 == 1 {
			pauses = append(pauses, 3*time.Hour, 11*time.Hour, 23*time.Hour, 24*time.Hour)
		}
		pause := pauses[rnd.IntN(len(pauses))]
		time.Sleep(pause)
		who, model := rnd.IntN(len(limiters)), models[rnd.IntN(len(models))]
		rl, mind := limiters[who], w.minds[who]
		step := ""
		switch n := rnd.IntN(100); {
		case n < 40:
			step = "record"
			rl.RecordUsage(model, w.record(mind, model), 0)
		case n < 75:
			step = "persist"
			limitertest.Save(t, rl)
			w.persist(mind)
		case n < 83:
			step = "load"
			limitertest.Load(t, rl)
			w.load(mind)
		case n < 88:
			step = "look"
			rl.AllStats()
			w.look(mind)
		case n < 94:
			step = "reset"
			rl.Reset(model)
			delete(mind.memory, model)
		case n < 95:
			step = "reset all"
			rl.Reset("")
			clear(mind.memory)
		default:
			step = "by hand"
			sqliteReplaceByHand(w, rl, mind, model, rnd)
		}
		log = append(log, fmt.Sprintf("%v: %c %s %s", pause, 'A'+who, step, model))
		if step == "persist" {
			if err := w.check(t, db); err != nil {
				t.Fatalf("%v\nafter\n%s", err, strings.Join(log, "\n"))
			}
		}
	}
}

// sqliteReplaceByHand replaces an entry of State by one that keeps some of it.
func sqliteReplaceByHand(w *sqliteWorld, rl *ratelimit.RateLimiter, mind *sqliteMind, model string, rnd *rand.Rand) {
	old, u := mind.memory[model], newSQLiteUsage()
	stats := &ratelimit.UsageStats{DayStart: time.Now()}
	if old != nil && old.day.current() && rnd.IntN(2) == 0 {
		stats.DayStart = old.day.start
	}
	for range rnd.IntN(4) { // a count is all that there is of a day
		w.at = append(w.at, time.Now())
		u.day.charges[len(w.at)-1] = true
	}
	if old != nil {
		for _, id := range w.live(old.charges) {
			if rnd.IntN(2) == 0 {
				w.at = append(w.at, w.at[id]) // another charge of the same time, as the file has it
				id = len(w.at) - 1
				u.charges[id] = true
				stats.Requests = append(stats.Requests, w.at[id])
				stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: w.at[id], Count: id})
			}
		}
	}
	u.day.start, stats.DayCount = stats.DayStart, len(u.day.charges)
	rl.State[model], mind.memory[model] = stats, &u
}
