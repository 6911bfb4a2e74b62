package ratelimit

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
)

// keepRows is how long, beyond the minute and the margin, charges stay in the
// database: another process may have a larger margin, or a clock that is behind.
const keepRows = time.Minute

// sqliteStore is one limiter's connection to its database. RateLimiter.ioMu
// guards it.
type sqliteStore struct {
	path string
	file os.FileInfo // what was opened
	db   *sql.DB     // nil when closed

	knowledge
	round int // counts calls of changes
}

// knowledge is what a limiter knows of the database, as of its last Load or
// Persist.
type knowledge struct {
	quotas    map[string]ModelQuota
	cooldowns map[string]int64 // until when, in UnixNano, as it was read or written
	models    map[string]*syncedModel
	seen      rowids
}

// rowids are one of each table: the largest that there were, or the next.
// Rows up to those that a limiter has seen may go when the program resets a
// model; later ones are what others wrote since.
type rowids struct{ requests, tokens, daily int64 }

// syncedModel is what the database holds of a model.
type syncedModel struct {
	window *window  // whose entries it holds, up to these totals
	day    usageDay // the day in memory, whose counts are in there
	file   usageDay // the day in there, with the counts of others

	loaded *UsageStats // while a Load is under way, what will have the window
	round  int         // the last call of changes that met the model in memory
}

// usageDay is a day as the database stores it, in UnixNano.
type usageDay struct {
	start         int64
	count, tokens int64 // of requests, and what these used

	// generation tells a day in the database from one that took its place: the
	// next day, or what a reset left of it.
	generation int64
}

// usageDayOf returns the day in memory.
func usageDayOf(w *window) usageDay {
	return usageDay{start: w.dayBegin, count: int64(w.dayCount()), tokens: int64(w.dayTokens())}
}

// same reports whether two days are the same, whatever their generation.
func (d usageDay) same(other usageDay) bool {
	return d.start == other.start && d.count == other.count && d.tokens == other.tokens
}

// empty reports whether there is nothing in the day.
func (d usageDay) empty() bool { return d.count <= 0 && d.tokens <= 0 }

// longestDay is more than any day lasts: a zone that crosses the date line has
// one of 48 hours.
const longestDay = 2 * day

// lastsIn reports whether the day is not over, which is so until midnight of a
// zone, or for 24 hours without one.
func (d usageDay) lastsIn(zone *time.Location, now int64) bool {
	if zone == nil {
		return d.start > now-day
	}
	_, end := dayOf(time.Unix(0, d.start), zone)
	return unixNano(end) > now
}

// currentIn reports whether there is something in the day, and it is not over.
func (d usageDay) currentIn(zone *time.Location, now int64) bool {
	return !d.empty() && d.lastsIn(zone, now)
}

// plus returns the day with what was counted more, or less. A count never falls
// below zero.
func (d usageDay) plus(count, tokens int64) usageDay {
	d.count, d.tokens = addCounts(d.count, count), addCounts(d.tokens, tokens)
	return d
}

// change is what one Persist has to do for one model.
type change struct {
	model  string
	synced *syncedModel // nil: never written
	forget bool         // what is known of the model is no longer true
	gone   bool         // not in memory any more

	window   *window
	requests ring.Changes[time.Time]
	tokens   ring.Changes[TokenEntry]
	day      usageDay       // the one in memory
	file     usageDay       // the one that was written
	zone     *time.Location // whose midnight ends them
}

// persist writes what is new in memory since the last load or persist.
func (s *sqliteStore) persist(rl *RateLimiter) error {
	if s.db == nil {
		return ErrClosed
	}
	if err := s.inPlace(); err != nil {
		return err
	}
	quotas, supplied := rl.copyQuotas()
	rl.indexAll()
	reading := new(atomic.Bool)
	reading.Store(true)
	defer reading.Store(false)
	changes, cooldowns := s.changes(rl, reading)
	now := time.Now().UnixNano()
	w := &rowWriter{now: now, cutoff: now - rl.span() - int64(keepRows), seen: s.seen}
	var cooled map[string]int64
	err := inTransaction(s.db, func(tx *sql.Tx) (err error) {
		w.tx = tx
		if err := checkFormat(tx, sqliteFormat); err != nil {
			return err
		}
		if quotas, err = w.writeQuotas(s.quotas, quotas, supplied); err != nil {
			return err
		}
		if err := w.dropCooldowns(); err != nil {
			return err
		}
		if cooled, err = w.writeCooldowns(s.cooldowns, cooldowns); err != nil {
			return err
		}
		if err := w.learnDays(s.models); err != nil {
			return err
		}
		return w.write(changes)
	})
	rl.endStoring(changes, err == nil)
	if err != nil {
		return s.explain(err)
	}
	s.quotas, s.cooldowns, s.seen = quotas, cooled, w.seen
	for synced, file := range w.learned {
		synced.file = file
	}
	for _, c := range changes {
		s.commit(c)
	}
	return nil
}

// inPlace returns an error if the path does not lead to the open file any more. SQLite
// would not notice, and write to where nobody will look.
func (s *sqliteStore) inPlace() error { return stillAt(s.path, s.file) }

func stillAt(path string, file os.FileInfo) error {
	info, err := os.Stat(path)
	if err == nil && !os.SameFile(info, file) {
		err = errReplaced
	}
	if err != nil {
		return fmt.Errorf("database was moved or deleted while it was open: %w", err)
	}
	return nil
}

// copyQuotas copies the quotas, and those that only a profile or a file supplied.
func (rl *RateLimiter) copyQuotas() (quotas, supplied map[string]ModelQuota) {
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	return rl.storedQuotasRLocked(), maps.Clone(rl.supplied)
}

// changes compares memory with what the database is known to hold, and notes
// what differs, by model, and all cooldowns. It copies no entries: their storage
// is left alone as long as reading says so.
func (s *sqliteStore) changes(rl *RateLimiter, reading *atomic.Bool) ([]*change, map[string]time.Time) {
	rl.mu.RLock()
	era := rl.era
	rl.mu.RUnlock()
	cooldowns := rl.liveCooldowns()
	found := s.compareAll(rl, reading)
	// With very many models a Reset of all may come in the middle. The file must
	// have all of what was before or nothing.
	if rl.resetSince(era) {
		rl.endStoring(slices.Collect(maps.Values(found)), false)
		cooldowns = rl.liveCooldowns()
		found = s.compareAll(rl, reading)
	}
	s.addGone(rl, found)
	changes := make([]*change, 0, len(found))
	for _, model := range slices.Sorted(maps.Keys(found)) {
		changes = append(changes, found[model])
	}
	return changes, cooldowns
}

// compareAll compares the models that are in memory. One that is reset meanwhile
// may be met twice, and counts as it was then.
func (s *sqliteStore) compareAll(rl *RateLimiter, reading *atomic.Bool) map[string]*change {
	s.round++
	found := make(map[string]*change)
	rl.walk(func(model string, stats *UsageStats, instant int64, now time.Time) {
		if stats == nil {
			return
		}
		w := stats.window
		if !w.mirrors(stats, rl) {
			w = rl.renewLocked(model, stats, instant, now)
		}
		rl.noteSavedLocked(w)
		rl.followQuotaLocked(model, stats, instant)
		synced := s.models[model]
		if synced != nil {
			synced.round = s.round
		}
		if c := compare(model, synced, w, instant, now); c != nil {
			c.beginStoring()
			w.pin(reading)
			found[model] = c
		}
	})
	return found
}

// compare returns what a window has to change; nil when nothing is new. A window
// other than the one that was written is all new. What was written of the old
// one is then no longer true, because the program reset the model or replaced
// its entry, unless the old one went because nothing in it was counted any more.
func compare(model string, synced *syncedModel, w *window, instant int64, now time.Time) *change {
	day := usageDayOf(w)
	forget := false
	switch {
	case synced == nil:
	case synced.window != w:
		forget = !lapsed(synced.window, instant, now)
	case w.isStored() && synced.day.same(day):
		return nil
	}
	return &change{model: model, synced: synced, forget: forget, window: w, day: day, zone: w.location}
}

// isStored reports whether the database has the entries as they are.
func (w *window) isStored() bool { return w.requests.Log().UpToDate() && w.tokens.Log().UpToDate() }

// beginStoring takes the entries to write from the window, which counts them as being written
// until endStoring.
func (c *change) beginStoring() {
	c.requests, c.tokens = c.window.requests.StartLog().Begin(), c.window.tokens.StartLog().Begin()
}

// endStoring tells the windows whether the database has what they had to store.
func (rl *RateLimiter) endStoring(changes []*change, ok bool) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	turn := rl.takeTurnLocked()
	for _, c := range changes {
		if c.window != nil && !c.gone {
			c.window.requests.Log().End(ok, c.requests)
			c.window.tokens.Log().End(ok, c.tokens)
			if ok && c.window.isStored() && usageDayOf(c.window).same(c.day) {
				c.window.owes = 0
			}
		}
		turn.nextLocked()
	}
}

// addGone adds the models that were written and are not in memory any more.
func (s *sqliteStore) addGone(rl *RateLimiter, found map[string]*change) {
	rl.mu.Lock()
	instant := rl.clock.sync()
	now := rl.clock.at(instant)
	rl.mu.Unlock()
	for model, synced := range s.models {
		if synced.round == s.round {
			continue
		}
		c := &change{model: model, synced: synced, gone: true}
		if lapsed(synced.window, instant, now) {
			c.window, c.day, c.zone = synced.window, synced.day, synced.window.location
		} else {
			c.forget = true
		}
		found[model] = c
	}
}

// lapsed reports whether nothing in w is counted any more: entries that have left
// and days that are over, in memory and in the database.
func lapsed(w *window, instant int64, now time.Time) bool {
	if w == nil || instant < w.owes {
		return false
	}
	cut := instant - w.home.span()
	return w.requests.Before(cut) == w.requests.Len() && w.tokens.Before(cut) == w.tokens.Len() &&
		(usageDayOf(w).empty() || now.UnixNano() >= w.dayEnd)
}

// mergeDay works out the day to store from the one in memory and the one in the
// database, to which others may have added.
func (c *change) mergeDay(file usageDay, now int64) usageDay {
	var written, known usageDay
	if c.synced != nil {
		written, known = c.synced.day, c.synced.file
	}
	if c.forget && file.generation == known.generation {
		file = file.plus(-known.count, -known.tokens)
		file.generation++
	}
	// A day in memory that was written before has grown since, or shrunk where a
	// reservation was given back, or its start went back with the wall clock. Any
	// other is new to the database.
	mine := c.day
	same := c.synced != nil && c.synced.window == c.window && !c.forget &&
		(mine.start <= written.start || !mine.empty() && written.lastsIn(c.zone, now))
	count, tokens := mine.count-written.count, mine.tokens-written.tokens
	switch {
	case !file.currentIn(c.zone, now):
		if same && file.empty() && known.currentIn(c.zone, now) {
			// Somebody reset the model. What was written before stays forgotten.
			mine.count, mine.tokens = max(count, 0), max(tokens, 0)
		}
		mine.generation = file.generation + 1
		return mine
	case !mine.lastsIn(c.zone, now) || mine.empty() && !same:
		return file
	case same:
		if file.generation != known.generation {
			// What was written before is not in this day, and cannot be taken back.
			count, tokens = max(count, 0), max(tokens, 0)
		}
		file = file.plus(count, tokens)
		switch {
		case mine.start < written.start:
			file.start = min(file.start, mine.start)
		case file.count == mine.count && file.tokens == mine.tokens:
			file.start = mine.start // after all of it was given back, it began anew
		}
	default:
		file = file.plus(mine.count, mine.tokens)
		file.start = min(file.start, mine.start)
	}
	return file
}

// addCounts adds what is to be added, which may be negative, to a count.
func addCounts(count, more int64) int64 {
	if more > 0 && count > math.MaxInt64-more {
		return math.MaxInt64
	}
	return max(count+more, 0)
}

// commit remembers what a transaction wrote.
func (s *sqliteStore) commit(c *change) {
	if c.gone {
		delete(s.models, c.model)
		return
	}
	synced := c.synced
	if synced == nil {
		synced = &syncedModel{}
		if s.models == nil {
			s.models = make(map[string]*syncedModel)
		}
		s.models[c.model] = synced
	}
	synced.window = c.window
	synced.day, synced.file = c.day, c.file
}

// load reads everything.
func (s *sqliteStore) load() (*snapshot, *knowledge, error) {
	if s.db == nil {
		return nil, nil, ErrClosed
	}
	tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, s.explain(err)
	}
	defer tx.Rollback()
	r := &rowReader{tx: tx}
	if err := checkFormat(tx, sqliteFormat); err != nil {
		return nil, nil, s.explain(err)
	}
	if err := r.read(); err != nil {
		return nil, nil, s.explain(err)
	}
	known := &knowledge{quotas: r.snapshot.quotas, seen: r.seen, cooldowns: make(map[string]int64)}
	for model, until := range r.snapshot.cooldowns {
		known.cooldowns[model] = until.UnixNano()
	}
	known.models = make(map[string]*syncedModel, len(r.snapshot.state))
	for model, stats := range r.snapshot.state {
		file := r.days[model]
		file.start = unixNano(stats.DayStart)
		known.models[model] = &syncedModel{
			day: file, file: file, loaded: stats,
		}
	}
	return r.snapshot, known, nil
}

// remember notes, after a load was taken over, that memory and database agree.
// Other calls are at work on what was loaded by then, so it must not be read.
func (s *sqliteStore) remember(_ *snapshot, known *knowledge) {
	for _, synced := range known.models {
		if w := synced.loaded.window; !w.ahead {
			synced.window = w
		}
		synced.loaded = nil
	}
	s.knowledge = *known
}

func (s *sqliteStore) close() error {
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	if err := db.Close(); err != nil {
		return s.explain(err)
	}
	return nil
}

// inTransaction runs work between BEGIN IMMEDIATE and COMMIT.
func inTransaction(db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}
