package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// keepRows is how long, beyond the minute and the margin, charges stay in the
// database: another process may have a larger margin, or a clock that is behind.
const keepRows = time.Minute

// sqliteStore is one limiter's database, and which windows that holds.
// RateLimiter.ioMu guards it.
type sqliteStore struct {
	db     *sqlitestate.DB // nil when closed
	models map[string]*syncedModel
	round  int // counts the calls of compareAll
}

// syncedModel is the content of the database for a model.
type syncedModel struct {
	window *window        // whose entries it holds, as far as their logs say
	day    state.DayUsage // the day of the window, whose counts are in there
	round  int            // the last call of compareAll that met the model in memory
}

// openSQLite opens the database at path for a limiter of its own.
func openSQLite(path string) (*sqliteStore, error) {
	db, err := sqlitestate.Open(path, sqlitelog.Private)
	if err != nil {
		return nil, err
	}
	return &sqliteStore{db: db}, nil
}

func (s *sqliteStore) close() error {
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return db.Close()
}

// load replaces the usage in memory by that of the database.
func (s *sqliteStore) load(rl *RateLimiter) error {
	if s.db == nil {
		return ErrClosed
	}
	is, err := s.db.Load()
	if err != nil {
		return err
	}
	l := loading{rl, is}
	usage := l.index()
	s.remember(is, usage)
	l.replace(usage)
	return nil
}

// remember notes that the database has the state that was read from it.
func (s *sqliteStore) remember(is *state.Snapshot, usage map[string]*UsageStats) {
	s.models = make(map[string]*syncedModel, len(usage))
	for model, stats := range usage {
		synced := &syncedModel{day: is.Usage[model].Day()}
		// Where the database has times from the future, which would count anew at every load,
		// the next Persist replaces them.
		if w := stats.window; !w.ahead {
			w.requests.StartStoredLog()
			w.tokens.StartStoredLog()
			synced.window = w
		}
		s.models[model] = synced
	}
}

// persist writes the changes in memory since the last load or persist.
func (s *sqliteStore) persist(rl *RateLimiter) error {
	if s.db == nil {
		return ErrClosed
	}
	rl.mu.RLock()
	quotas, supplied := rl.provenance.Stored(rl.Quotas), rl.provenance.Supplied()
	rl.mu.RUnlock()
	rl.indexAll()
	save := sqliteSave{saving: newSaving(rl), store: s}
	defer save.done()
	cooldowns := save.compareAll()
	now := time.Now().UnixNano()
	err := s.db.Store(&sqlitestate.Update{
		Quotas: storedQuotas(quotas), Supplied: storedQuotas(supplied), Cooldowns: cooldowns, Changes: save.changes(),
		Now: now, Cutoff: now - rl.span() - int64(keepRows),
	})
	save.end(err == nil)
	if err != nil {
		return err
	}
	save.remember()
	return nil
}

// sqliteSave is one Persist under way: the models that differ from what the database is known
// to hold.
type sqliteSave struct {
	saving
	store  *sqliteStore
	models map[string]*modelSave
}

// modelSave is the work of one Persist for one model.
type modelSave struct {
	sqlitestate.Change
	window   *window // nil if it is not in memory any more
	requests ring.Changes[time.Time]
	tokens   ring.Changes[TokenEntry]
}

// compareAll finds the models that differ, and returns all cooldowns.
func (s *sqliteSave) compareAll() (cooldowns map[string]time.Time) {
	s.consistently(func(live map[string]time.Time) {
		s.end(false) // of what was found before
		cooldowns = live
		s.compareState()
	})
	s.addGone()
	return cooldowns
}

// compareState finds those of the models in memory that differ. One that is reset meanwhile
// may be met twice, and counts as it was then.
func (s *sqliteSave) compareState() {
	rl := s.rl
	s.store.round++
	s.models = make(map[string]*modelSave)
	rl.walk(func(model string, stats *UsageStats, instant int64, now time.Time) {
		if stats == nil {
			return
		}
		w := stats.window
		if !w.mirrors(stats, rl) {
			w = rl.makeWindowLocked(model, stats, instant)
		}
		rl.noteSavedLocked(w)
		rl.followQuotaLocked(model, stats, instant)
		synced := s.store.models[model]
		if synced != nil {
			synced.round = s.store.round
		}
		if differs, forget := compare(synced, w, instant, now); differs {
			s.models[model] = s.begin(model, synced, w, forget)
		}
	})
}

// compare reports whether a window differs from what is known to be stored, and whether that
// is to be forgotten. A window other than the one that was written is all new. What was
// written of the old one is then no longer true, because the program reset the model or
// replaced its entry, unless the old one went because nothing in it was counted any more.
func compare(synced *syncedModel, w *window, instant int64, now time.Time) (differs, forget bool) {
	switch {
	case synced == nil:
		return true, false
	case synced.window != w:
		return true, !lapsed(synced.window, instant, now)
	}
	return !w.isStored() || !synced.day.Same(dayOf(w)), false
}

// begin takes the entries to write from a window, which counts them as being written until
// end.
func (s *sqliteSave) begin(model string, synced *syncedModel, w *window, forget bool) *modelSave {
	c := &modelSave{
		window:   w,
		requests: w.requests.StartLog().Begin(),
		tokens:   w.tokens.StartLog().Begin(),
	}
	c.Change = sqlitestate.Change{
		Model:        model,
		Requests:     c.requests.Added,
		Tokens:       tokenEntries(c.tokens.Added),
		RequestFixes: fixes(c.requests.Corrected, func(t time.Time) time.Time { return t }),
		TokenFixes:   fixes(c.tokens.Corrected, func(e TokenEntry) state.Token { return state.Token(e) }),
		Day:          dayOf(w),
		Zone:         w.period.Location,
		Continues:    synced != nil && synced.window == w,
		Forget:       forget,
	}
	w.pin(s.pinned)
	return c
}

// fixes returns corrections as the database takes them.
func fixes[T, S any](corrections []ring.Correction[T], stored func(T) S) []sqlitestate.Fix[S] {
	var all []sqlitestate.Fix[S]
	for _, c := range corrections {
		all = append(all, sqlitestate.Fix[S]{Value: stored(c.Value), Added: c.Added})
	}
	return all
}

// addGone adds the models that were written and are not in memory any more.
func (s *sqliteSave) addGone() {
	instant, now := s.rl.present()
	for model, synced := range s.store.models {
		if synced.round == s.store.round {
			continue
		}
		c := &modelSave{Change: sqlitestate.Change{Model: model, Gone: true}}
		if lapsed(synced.window, instant, now) {
			c.Continues, c.Day, c.Zone = true, synced.day, synced.window.period.Location
		} else {
			c.Forget = true
		}
		s.models[model] = c
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
		(dayOf(w).Empty() || now.UnixNano() >= w.period.End)
}

// changes returns the changes to be written, in the order of the models.
func (s *sqliteSave) changes() []*sqlitestate.Change {
	changes := make([]*sqlitestate.Change, 0, len(s.models))
	for _, model := range slices.Sorted(maps.Keys(s.models)) {
		changes = append(changes, &s.models[model].Change)
	}
	return changes
}

// end tells the windows whether the database has their changes.
func (s *sqliteSave) end(ok bool) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	yielder := s.rl.yieldingLocked()
	for _, c := range s.models {
		if w := c.window; w != nil {
			w.requests.Log().End(ok, c.requests)
			w.tokens.Log().End(ok, c.tokens)
			if ok && w.isStored() && dayOf(w).Same(c.Day) {
				w.owes = 0
			}
		}
		yielder.nextLocked()
	}
}

// remember notes the content of the database after the write.
func (s *sqliteSave) remember() {
	if s.store.models == nil {
		s.store.models = make(map[string]*syncedModel)
	}
	for model, c := range s.models {
		if c.Gone {
			delete(s.store.models, model)
			continue
		}
		s.store.models[model] = &syncedModel{window: c.window, day: c.Day, round: s.store.round}
	}
}

// dayOf returns the day of a window as stores see it.
func dayOf(w *window) state.DayUsage {
	return state.DayUsage{Start: w.period.Begin, Count: int64(w.dayCount()), Tokens: int64(w.dayTokens())}
}

// isStored reports whether the database has the entries as they are.
func (w *window) isStored() bool { return w.requests.Log().UpToDate() && w.tokens.Log().UpToDate() }
