package ratelimit

import (
	"fmt"
	"io/fs"
	"math"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/yamlfile"
)

// Persist writes quotas, usage, cooldowns and what ObserveAnswer has learned to the state file. It
// holds up other calls only while it notes the state, never while it writes, and with very many
// models lets them in between. Concurrent calls take turns. It leaves out quotas with a negative
// limit or an unknown zone, because no Load would accept them, and expired cooldowns.
//
// With YAML it replaces the whole file: a crash leaves the old or the new one. It overwrites the
// changes of other processes. A file that Load could not read is first moved aside, to its name
// followed by ".corrupt-" and the time.
//
// With SQLite it writes only new entries, and keeps those that other processes wrote since this
// limiter's last Load or Persist, day counts included; of two cooldowns of a model the later
// stays. On a closed limiter it returns ErrClosed.
//
// With Config.Shared and Config.Store everything is in the file or store already. Persist and Load
// then only check that, for as long as a call may take, and return the error if it is not so.
//
// Persist is safe for concurrent use.
func (rl *RateLimiter) Persist() error {
	if rl.shared != nil {
		return rl.shared.persist("persist")
	}
	rl.storage.mu.Lock()
	defer rl.storage.mu.Unlock()
	return rl.storage.save(rl)
}

// storage is the state file of a limiter: a YAML file or a database. The methods are called
// with mu held.
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
	s.begin(rl)
	began, system := rl.teller.now(), settings.YAML
	if s.sqlite != nil {
		system = settings.SQLite
		err = s.sqlite.persist(rl)
	} else {
		err = s.persistYAML(rl)
	}
	rl.teller.saved(string(system), saveOperation, began, err)
	rl.autosave.saver.End(err)
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	s.end(rl)
	return nil
}

// begin tells the saver that the state is about to be copied.
func (s *storage) begin(rl *RateLimiter) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.saves++
	if rl.autosave.saver != nil {
		rl.autosave.saver.Begin()
		rl.autosave.nextAt = math.MinInt64
	}
}

// end notes that the save that began last succeeded.
func (s *storage) end(rl *RateLimiter) {
	rl.mu.Lock()
	rl.saved = rl.saves
	rl.mu.Unlock()
}

// Load reads the state file. The usage in the file replaces that in memory, so charges that were
// not persisted are gone. Quotas that the program set (Config.Quotas, SetQuota) and the account's
// limits (SetAccountQuotas) win over the file, and the file wins over default profiles, except for
// profiles' quotas that an earlier run has left there. Of a model's cooldowns in memory and in the
// file, the later wins; what ObserveAnswer has learned is put together. A missing file changes
// nothing and is not an error. Waiters are served at once.
//
// A file that cannot be read as a state file is an error that wraps ErrCorruptState and names the
// field and its value; for a limit that is not an integer of zero or more, and for an unknown
// zone, it also wraps ErrInvalidQuota. Limiter and file stay as they were. With SQLite, on a
// closed limiter, Load returns ErrClosed. With Config.Shared and Config.Store it does the same as
// Persist.
//
// Load is safe for concurrent use.
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

// MigrateYAMLToSQLite writes the quotas, the usage and the cooldowns of a YAML state file into a
// SQLite database, and replaces its content. It creates a missing database. Running it again
// gives the same database.
//
// A missing or unreadable YAML file is an error (ErrCorruptState for the latter), and so is a
// database that cannot be opened, or that is shared (Config.Shared). A failure leaves the
// database as it was. The YAML file is not changed.
func MigrateYAMLToSQLite(yamlPath, sqlitePath string) error {
	s, err := yamlfile.ReadState(yamlPath)
	switch {
	case err == nil && s == nil:
		err = fmt.Errorf("%s: %w", yamlPath, fs.ErrNotExist)
	case err == nil:
		err = sqlitestate.Replace(sqlitePath, sqlitelog.Private, s)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
