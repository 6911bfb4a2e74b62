package ratelimit

import (
	"maps"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// saving is a Persist under way. It copies no entries: they stay where and as they are until done
// is called.
type saving struct {
	rl     *RateLimiter
	pinned *atomic.Bool // as long as it is true the entries are left where and as they are
}

func newSaving(rl *RateLimiter) saving {
	s := saving{rl, new(atomic.Bool)}
	s.pinned.Store(true)
	return s
}

func (s saving) done() { s.pinned.Store(false) }

// walk visits what a file is to have of all models: it returns what is beside their usage, and
// visits that, once begin was called. It does so once more if all models were reset meanwhile: the
// file must have everything from before the reset or nothing. With few models that cannot happen.
// While storage.mu is held, no Load replaces the usage.
func (s saving) walk(begin func(), visit func(a *account.Account, now account.Now)) *state.Snapshot {
	version := s.stateVersion()
	begin()
	is := s.walkOnce(visit)
	if s.stateVersion() != version {
		begin()
		is = s.walkOnce(visit)
	}
	return is
}

func (s saving) stateVersion() int {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.stateVersion
}

func (s saving) walkOnce(visit func(a *account.Account, now account.Now)) *state.Snapshot {
	rl, is := s.rl, state.NewSnapshot()
	rl.walk(func(a *account.Account, now account.Now) {
		if a.CoolUntil > now.Wall {
			is.Cooldowns[a.Name] = state.Cooldown{Until: time.Unix(0, a.CoolUntil), Cause: a.CoolCause}
		}
		if f, ok := a.Found.Stored(now); ok {
			is.Found[a.Name] = f
		}
		addSpend(is.Spend, a, now.Wall)
		if a.IsShown() {
			rl.localLocked(a).marks.note(rl.saves, rl.saved, a.Save())
			visit(a, now)
		}
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	addSpend(is.Spend, rl.engine.Spender(state.OtherAccount), rl.nowLocked().Wall)
	return is
}

// catalog copies what a file is to have of names, and returns which of the quotas neither the
// program nor the account said.
func (s saving) catalog() (f catalog.File, supplied map[string]bool) {
	s.rl.mu.RLock()
	f, supplied = s.rl.engine.Catalog.Stored()
	s.rl.mu.RUnlock()
	maps.DeleteFunc(f.Pools, func(pool string, _ []string) bool {
		q := f.Quotas[pool]
		return q.Validate(pool) != nil // a Load would not accept it
	})
	return f, supplied
}

// marks tell which charges of an account are in the file: those of the last save that met it, and
// of the last one before that succeeded, if that is another. The zero value is none.
type marks struct{ last, before mark }

type mark struct {
	save int // which it was
	of   account.Mark
}

// note notes that the save under way meets the account. saved is the last save that succeeded.
func (m *marks) note(save, saved int, of account.Mark) {
	if m.last.save == saved {
		m.before = m.last
	}
	m.last = mark{save, of}
}

// saved returns the mark of the last save that succeeded; that of no charge where it did not meet
// the account.
func (m *marks) saved(saved int) account.Mark {
	switch saved {
	case m.last.save:
		return m.last.of
	case m.before.save:
		return m.before.of
	}
	return account.Mark{}
}

// loaded notes that the account has what the last save that succeeded has written.
func (m *marks) loaded(saved int, of account.Mark) { *m = marks{last: mark{saved, of}} }

// storedQuotas returns quotas as stores see them.
func storedQuotas(quotas map[string]ModelQuota) map[string]state.Quota {
	stored := make(map[string]state.Quota, len(quotas))
	for model, q := range quotas {
		stored[model] = state.Quota(q)
	}
	return stored
}
