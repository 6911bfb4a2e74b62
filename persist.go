package ratelimit

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/yamlfile"
)

// Persist writes quotas, usage, cooldowns and what ObserveAnswer has learned to the state file. It
// holds up other calls only while it notes the state, and with very many models lets them in
// between. It leaves out invalid quotas, which no Load would accept, and expired cooldowns.
//
// With YAML it replaces the whole file: a crash leaves the old or the new one. It overwrites the
// changes of other processes. A file that Load could not read is first moved aside, to its name
// followed by ".corrupt-" and the time.
//
// With SQLite it writes only new entries, and keeps those that other processes wrote since this
// limiter's last Load or Persist, day counts included; of two cooldowns of a model the later
// stays. On a closed limiter it returns ErrClosed.
//
// With Config.Shared and Config.Store Persist and Load only return the error of that, if any.
func (rl *RateLimiter) Persist() error {
	if rl.shared != nil {
		return rl.shared.persist("persist")
	}
	rl.storage.mu.Lock()
	defer rl.storage.mu.Unlock()
	return rl.storage.save(rl)
}

// storage is the state file of a limiter, YAML or a database. Its methods are called with mu held.
type storage struct {
	mu      sync.Mutex // one Persist, Load or Close at a time; taken before RateLimiter.mu
	path    string     // the YAML file; empty with SQLite
	suspect bool       // the YAML file could not be loaded
	sqlite  *sqliteStore
	spent   map[string]state.Spend // what of the spend in memory is in the file
}

// isClosed reports whether the database is closed; a YAML file never is.
func (s *storage) isClosed() bool { return s.sqlite != nil && s.sqlite.db == nil }

// save is Persist.
func (s *storage) save(rl *RateLimiter) (err error) {
	rl.mu.Lock()
	rl.saves++
	rl.saver.Begin() // before the state is copied
	rl.mu.Unlock()
	began, system := rl.teller.now(), settings.YAML
	if s.sqlite != nil {
		system = settings.SQLite
		err = s.sqlite.persist(rl)
	} else {
		err = s.persistYAML(rl)
	}
	rl.teller.saved(string(system), saveOperation, began, err)
	rl.saver.End(err)
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	rl.mu.Lock()
	rl.saved = rl.saves
	rl.mu.Unlock()
	return nil
}

// Load reads the state file. The usage in the file replaces that in memory, so charges that were
// not persisted are gone. Quotas that the program set and the account's limits win over the file,
// and the file over default profiles, except for profiles' quotas that an earlier run has left
// there. Of a model's cooldowns in memory and in the file, the later wins; what ObserveAnswer has
// learned is put together. A missing file changes nothing. Waiters are served at once.
//
// A file that cannot be read as a state file is an error that wraps ErrCorruptState and names the
// field and its value; for an invalid quota it also wraps ErrInvalidQuota. Limiter and file stay as
// they were. With SQLite, on a closed limiter, Load returns ErrClosed.
func (rl *RateLimiter) Load() error {
	if rl.shared != nil {
		return rl.shared.persist("load")
	}
	defer rl.teller.flush()
	rl.storage.mu.Lock()
	defer rl.storage.mu.Unlock()
	if err := rl.storage.load(rl); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

func (s *storage) load(rl *RateLimiter) error {
	if s.sqlite != nil {
		return s.sqlite.load(rl)
	}
	if s.path == "" {
		return errNoFile
	}
	loaded, err := yamlfile.ReadState(s.path)
	if s.suspect = err != nil; err != nil || loaded == nil {
		return err
	}
	l := loading{rl, loaded, func(*account.Account, *account.Prepared, account.Now) {}}
	l.take(s)
	return nil
}

// AutoPersist says when the limiter writes its state file by itself. The zero value is off.
type AutoPersist struct {
	// Delay is the time from the last change to the write. Zero turns AutoPersist off.
	Delay time.Duration `yaml:"delay,omitempty"`
	// MaxWait is the longest time that a change stays unwritten while more keep coming. Zero is
	// ten times Delay; otherwise it must be at least Delay.
	MaxWait time.Duration `yaml:"max_wait,omitempty"`
}

// startSaver loads the state, and saves changes from then on.
func (s *storage) startSaver(rl *RateLimiter, when AutoPersist) error {
	if when.Delay == 0 {
		return nil
	}
	if err := rl.Load(); err != nil {
		return err
	}
	saver := chores.NewSaver(chores.SaverOptions{
		Delay: when.Delay, MaxWait: when.MaxWait, Report: rl.reporter.Report,
		Storage: &s.mu, Save: func() error { return s.save(rl) },
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.saver = saver
	return nil
}

// saving is a Persist under way. It copies no entries.
type saving struct {
	rl     *RateLimiter
	pinned atomic.Bool // as long as it is true the entries are left where and as they are
}

// walk visits what a file is to have of all models: it returns what is beside their usage, and
// visits that, once begin was called. It does so again if all models were reset meanwhile: the file
// must have all from before that or nothing. While storage.mu is held, no Load replaces the usage.
func (s *saving) walk(begin func(), visit func(a *account.Account, now account.Now)) (is *state.Snapshot) {
	for range 2 {
		begin()
		var reset bool
		if is, reset = s.walkOnce(visit); !reset {
			break
		}
	}
	return is
}

func (s *saving) walkOnce(visit func(a *account.Account, now account.Now)) (is *state.Snapshot, reset bool) {
	rl, first := s.rl, -1 // the version of the first account that was visited
	is = state.NewSnapshot()
	rl.walk(func(a *account.Account, now account.Now) {
		if first < 0 {
			first = rl.stateVersion
		}
		a.StoreBeside(is, now)
		if a.IsShown() {
			rl.localLocked(a).marks.Note(rl.saves, rl.saved, a.Save())
			visit(a, now)
		}
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.engine.Spender(state.OtherAccount).StoreBeside(is, rl.nowLocked())
	return is, first >= 0 && first != rl.stateVersion
}

// catalog copies what a file is to have of names, and returns which quotas were supplied.
func (s *saving) catalog() (f catalog.File, supplied map[string]bool) {
	s.rl.mu.RLock()
	f, supplied = s.rl.engine.Catalog.Stored()
	s.rl.mu.RUnlock()
	maps.DeleteFunc(f.Pools, func(pool string, _ []string) bool {
		q := f.Quotas[pool]
		return q.Validate(pool) != nil // a Load would not accept it
	})
	return f, supplied
}

// storedQuotas returns quotas as stores see them.
func storedQuotas(quotas map[string]ModelQuota) map[string]state.Quota {
	stored := make(map[string]state.Quota, len(quotas))
	for model, q := range quotas {
		stored[model] = state.Quota(q)
	}
	return stored
}
