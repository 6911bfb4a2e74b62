package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/spend"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/unsaved"
	"dappco.re/go/core/go-ratelimit/internal/yield"
)

// keepRows is how long, beyond the minute and the margin, charges stay in the
// database: another process may have a larger margin, or a clock that is behind.
const keepRows = time.Minute

// sqliteStore is one limiter's database, and what of memory that lacks.
// RateLimiter.storage.mu guards it.
type sqliteStore struct {
	db     *sqlitestate.DB // nil when closed
	models *unsaved.Models[TokenEntry, *window]
}

// openSQLite opens the database at path for a limiter of its own.
func openSQLite(path string) (*sqliteStore, error) {
	db, err := sqlitestate.Open(path, sqlitelog.Private)
	if err != nil {
		return nil, err
	}
	return &sqliteStore{db: db, models: newUnsaved()}, nil
}

func newUnsaved() *unsaved.Models[TokenEntry, *window] {
	return unsaved.NewModels[TokenEntry, *window](storedToken)
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
	rl.storage.loadSpend(l)
	return nil
}

// remember notes that the database has the state that was read from it.
func (s *sqliteStore) remember(is *state.Snapshot, usage map[string]*UsageStats) {
	s.models = newUnsaved()
	for model, stats := range usage {
		w := stats.window
		if w.ahead {
			// The database has times from the future, which would count anew at every load. The
			// next Persist replaces them.
			w = nil
		}
		s.models.Loaded(model, w, is.Usage[model].Day())
	}
}

// persist writes the changes in memory since the last load or persist.
func (s *sqliteStore) persist(rl *RateLimiter) error {
	if s.db == nil {
		return ErrClosed
	}
	save := newSaving(rl)
	defer save.done()
	quotas, said, supplied := save.quotas()
	rl.indexAll()
	cooldowns, spent := s.compareAll(save), save.spends()
	now := time.Now().UnixNano()
	err := s.db.Store(&sqlitestate.Update{
		Quotas: quotas, Said: said, Supplied: supplied, Cooldowns: cooldowns, Changes: s.models.Changes(),
		Answers: rl.answers.All(), Found: save.founds(), Pools: save.pools(),
		Spend: spend.Since(spent, rl.storage.spent), Now: now, Cutoff: now - rl.span() - int64(keepRows),
	})
	if s.end(rl, err == nil); err == nil {
		rl.storage.spent = spent
	}
	return err
}

// compareAll finds the models that differ, and returns all cooldowns.
func (s *sqliteStore) compareAll(save saving) (cooldowns map[string]state.Cooldown) {
	save.consistently(func(live map[string]state.Cooldown) {
		s.end(save.rl, false) // of what was found before
		cooldowns = live
		s.compareState(save)
	})
	instant, now := save.rl.present()
	s.models.AddGone(instant, now.UnixNano())
	return cooldowns
}

// compareState finds those of the models in memory that differ. One that is reset meanwhile
// may be met twice.
func (s *sqliteStore) compareState(save saving) {
	rl := save.rl
	s.models.Begin()
	rl.walk(func(model string, stats *UsageStats, instant int64, now time.Time) {
		if stats == nil {
			return
		}
		w := stats.window
		if !w.mirrors(stats, rl) {
			w = rl.makeWindowLocked(model, stats, instant)
		}
		w.noteSavedLocked()
		w.followQuotaLocked(model, instant)
		if s.models.Compare(model, w, instant, now.UnixNano()) {
			w.pin(save.pinned)
		}
	})
}

// end notes whether the database has the changes that were found.
func (s *sqliteStore) end(rl *RateLimiter, ok bool) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := yield.New(&rl.mu, &rl.clock)
	s.models.End(ok, work.Next)
}

// dayOf returns the day of a window as stores see it.
func dayOf(w *window) state.DayUsage {
	return state.DayUsage{Start: w.period.Begin, Count: int64(w.dayCount()), Tokens: int64(w.dayTokens())}
}

// Entries implements unsaved.Window.
func (w *window) Entries() (*ring.Queue[time.Time], *ring.Queue[TokenEntry]) {
	return &w.requests, &w.tokens
}

// Day implements unsaved.Window.
func (w *window) Day() (state.DayUsage, *time.Location) { return dayOf(w), w.period.Location }

// Lapsed implements unsaved.Window.
func (w *window) Lapsed(instant, wall int64) bool {
	cut := instant - w.home.span()
	return instant >= w.owes && (dayOf(w).Empty() || wall >= w.period.End) &&
		w.requests.Before(cut) == w.requests.Len() && w.tokens.Before(cut) == w.tokens.Len()
}

// Saved implements unsaved.Window.
func (w *window) Saved() { w.owes = 0 }
