package ratelimit

import (
	"maps"
	"sync/atomic"

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
		a.StoreBeside(is, now)
		if a.IsShown() {
			rl.localLocked(a).marks.Note(rl.saves, rl.saved, a.Save())
			visit(a, now)
		}
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.engine.Spender(state.OtherAccount).StoreBeside(is, rl.nowLocked())
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

// storedQuotas returns quotas as stores see them.
func storedQuotas(quotas map[string]ModelQuota) map[string]state.Quota {
	stored := make(map[string]state.Quota, len(quotas))
	for model, q := range quotas {
		stored[model] = state.Quota(q)
	}
	return stored
}
