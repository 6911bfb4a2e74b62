package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// keepRows is how long, beyond the minute and the margin, charges stay in the
// database: another process may have a larger margin, or a clock that is behind.
const keepRows = time.Minute

// sqliteStore is a database, and what of memory it lacks. RateLimiter.storage.mu guards it.
type sqliteStore struct {
	db     *sqlitestate.DB // nil when closed
	models *sqlitestate.Unsaved
}

// close closes the database, if there is one that is open.
func (s *sqliteStore) close() error {
	if s == nil || s.db == nil {
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
	s.models = sqlitestate.NewUnsaved()
	for model, u := range is.Usage {
		s.models.Has(model, u.Day())
	}
	l := loading{rl, is, func(a *account.Account, p *account.Prepared, now account.Now) {
		// Times from the future would count anew at every load: the next Persist replaces them.
		if !p.Ahead {
			s.models.Loaded(a, now, rl.span())
		}
	}}
	l.take(&rl.storage)
	return nil
}

// persist writes the changes in memory since the last load or persist.
func (s *sqliteStore) persist(rl *RateLimiter) error {
	if s.db == nil {
		return ErrClosed
	}
	save := &saving{rl: rl}
	save.pinned.Store(true)
	defer save.pinned.Store(false)
	rl.adoptAll()
	f, supplied := save.catalog()
	is := s.compareAll(save)
	now := time.Now().UnixNano()
	err := s.db.Store(&sqlitestate.Update{
		Quotas: f.Quotas, Said: f.Said, Supplied: supplied, Cooldowns: is.Cooldowns, Changes: s.models.Changes(),
		Answers: rl.answers.All(), Found: is.Found, Pools: f.Pools,
		Spend: state.SpendSince(is.Spend, rl.storage.spent), Now: now, Cutoff: now - rl.span() - int64(keepRows),
	})
	if s.end(rl, err == nil); err == nil {
		rl.storage.spent = is.Spend
	}
	return err
}

// compareAll finds the models that differ, some twice, and returns what is beside their usage.
func (s *sqliteStore) compareAll(save *saving) *state.Snapshot {
	rl := save.rl
	begin := func() {
		s.end(rl, false) // of what was found before
		s.models.Begin()
	}
	is := save.walk(begin, func(a *account.Account, now account.Now) {
		if s.models.Compare(a, now, rl.span()) {
			a.Pin(&save.pinned)
		}
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	s.models.AddGone(rl.nowLocked())
	return is
}

// end notes whether the database has the changes that were found.
func (s *sqliteStore) end(rl *RateLimiter, ok bool) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := chores.NewWorker(&rl.mu, &rl.clock)
	s.models.End(ok, work.Next)
}
