package ratelimit

import (
	"fmt"
	"sync"
)

// Persist writes quotas, usage and cooldowns to the state file. It holds up
// other calls only while it notes what there is, never while it writes, and with
// very many models lets them in between. Concurrent calls take turns.
// A quota with a negative limit or an unknown zone is left out, because no Load
// would accept it, and so is a cooldown that is over.
//
// With YAML the file is replaced as a whole: a crash leaves the old or the new
// one. What another process wrote there is overwritten. A file that Load could
// not read is first moved aside, to its name followed by ".corrupt-" and the time.
//
// With SQLite only what is new is written, and what other processes wrote since
// this limiter's last Load or Persist is kept, day counts included; of two
// cooldowns of a model the later stays. On a closed limiter it returns ErrClosed.
//
// With Config.Shared everything is in the file already. Persist then only makes sure of
// that, and returns why it is not; so does Load.
//
// It is safe for concurrent use.
func (rl *RateLimiter) Persist() error {
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
}

// save is Persist.
func (s *storage) save(rl *RateLimiter) (err error) {
	if rl.ledger != nil {
		if err := rl.ledger.flush(); err != nil {
			return fmt.Errorf("persist: %w", err)
		}
		return nil
	}
	rl.saver.begin()
	if s.sqlite != nil {
		err = s.sqlite.persist(rl)
	} else {
		err = s.persistYAML(rl)
	}
	rl.saver.end(err)
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	return nil
}

// Load reads the state file. The usage in memory is replaced by the file's, so
// that charges which were not persisted are gone. For quotas, what the program
// said itself (Config.Quotas, SetQuota) wins over the file, and the file over
// default profiles. Of a model's cooldowns in memory and in the file, the later
// wins. A missing file changes nothing and is no error. Whoever waits is served at
// once.
//
// A file that cannot be read for what it should be is an error that wraps
// ErrCorruptState and names the field and its value, and for a limit that is no
// integer of zero or more, or a zone that is not known, also ErrInvalidQuota;
// limiter and file stay as they were. With SQLite, on a closed limiter, it
// returns ErrClosed. With Config.Shared it is as Persist.
//
// It is safe for concurrent use.
func (rl *RateLimiter) Load() error {
	rl.storage.mu.Lock()
	defer rl.storage.mu.Unlock()
	if err := rl.storage.load(rl); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

func (s *storage) load(rl *RateLimiter) error {
	if rl.ledger != nil {
		return rl.ledger.flush()
	}
	if s.sqlite != nil {
		return s.sqlite.load(rl)
	}
	loaded, err := s.loadYAML()
	if err != nil || loaded == nil {
		return err
	}
	l := loading{rl, loaded}
	l.replace(l.index())
	return nil
}
