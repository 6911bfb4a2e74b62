package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// loading is a Load under way.
type loading struct {
	rl *RateLimiter
	*state.Snapshot
	loaded func(*account.Account, *account.Prepared, account.Now) // is told of each usage that was taken over
}

// take takes over what a file has. With very many models others may see a part of it.
func (l loading) take(s *storage) {
	rl := l.rl
	rl.adoptAll()
	rl.mu.Lock()
	now := rl.nowLocked()
	rl.mu.Unlock()
	usage := account.PrepareAll(l.Usage, now) // without the lock, so that no other call waits for that
	l.takeQuotas()
	l.takeUsage(usage)
	l.takeFindings()
	rl.answers.Merge(l.Answers, rl.mostModels())
	s.loadSpend(l)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now = rl.nowLocked()
	rl.engine.Serve(now)
	rl.leaveLocked(now)
}

// takeQuotas takes over the quotas and the pools of a file, below those that the program said: by
// Config.Quotas, by SetQuota, or in the Quotas map. Those that wait are served later.
func (l loading) takeQuotas() {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	zones := make(map[string]bool)
	for _, q := range l.Quotas {
		zones[q.DayZone] = true
	}
	for zone := range zones {
		rl.engine.TellZone(state.BoundsOf, zone, now)
	}
	rl.engine.LoadPools(l.Pools, now)
	rl.engine.Catalog.Grow(len(l.Quotas))
	names, work := slices.Sorted(maps.Keys(l.Quotas)), chores.NewWorker(&rl.mu, &rl.clock)
	var changes []catalog.Change // the room for them is used again
	for some := range slices.Chunk(names, 64) {
		l.sayLocked(work.Instant, func(c *catalog.Catalog) []catalog.Change {
			changes = changes[:0]
			for _, name := range some {
				changes = c.LoadQuota(changes, name, l.Quotas[name], l.Said[name], rl.learns)
			}
			return changes
		})
		for range some {
			work.Next()
		}
	}
	l.sayLocked(work.Instant, func(c *catalog.Catalog) []catalog.Change { return c.LoadEnd(nil) })
}

// sayLocked is RateLimiter.sayLocked for what a file says, and serves nobody.
func (l loading) sayLocked(instant int64, say func(*catalog.Catalog) []catalog.Change) {
	rl := l.rl
	now := rl.nowAtLocked(instant)
	rl.sayer = byFile
	rl.engine.Change(say, now)
	rl.saidLocked(now)
}

// takeUsage replaces the usage of all models and pools, and drops what providers have reported.
// Charges of open calls that the file has stay theirs. What was reset meanwhile stays so.
func (l loading) takeUsage(usage []*account.Loaded) {
	rl, entries := l.rl, make(map[string]*UsageStats, len(usage))
	rl.mu.Lock()
	defer rl.mu.Unlock()
	version := rl.stateVersion
	rl.State, rl.seen.state = entries, entries
	work := chores.NewWorker(&rl.mu, &rl.clock)
	for a := range rl.engine.Accounts {
		rl.engine.Unload(a, l.Usage[a.Name] != nil, rl.nowAtLocked(work.Instant))
		work.Next()
	}
	for _, u := range usage {
		if rl.stateVersion != version {
			return
		}
		l.takeOneLocked(u, rl.nowAtLocked(work.Instant))
		work.Next()
	}
}

func (l loading) takeOneLocked(u *account.Loaded, now account.Now) {
	rl := l.rl
	var kept account.Mark
	if was := rl.engine.Account(u.Name); was != nil {
		kept = rl.localLocked(was).marks.Saved(rl.saved)
	}
	a := rl.adoptEntryLocked(u.Name, entryOf(u.Usage), u.Prepared, kept.Has, now)
	if !a.IsPool() {
		rl.State[a.Name] = entryOf(u.Usage)
	}
	rl.localLocked(a).marks.Loaded(rl.saved, a.Save())
	l.loaded(a, u.Prepared, now)
}

// takeFindings takes over the lasting cooldowns of a file, unless memory has a later one: a program
// may persist and load in turns to see the changes of others, and must not lose a cooldown by that.
// So it does with what was found of limits.
func (l loading) takeFindings() {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := chores.NewWorker(&rl.mu, &rl.clock)
	for name, c := range l.Cooldowns {
		rl.engine.LoadCooldown(name, clock.UnixNano(c.Until), state.KeptCause(c.Cause), rl.nowAtLocked(work.Instant))
		work.Next()
	}
	for _, name := range slices.Sorted(maps.Keys(l.Found)) {
		if known := l.Found[name]; catalog.IsName(name) {
			known.Told = known.Told && rl.learns
			rl.engine.LoadFound(name, known, rl.nowAtLocked(work.Instant))
		}
		work.Next()
	}
}

// loadSpend makes the spend that of a file, and adds what was spent since the last Load or Persist:
// no Load may forget money, as it forgets charges. Each account changes in one step.
func (s *storage) loadSpend(l loading) {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := chores.NewWorker(&rl.mu, &rl.clock)
	names := map[string]bool{state.OtherAccount: true}
	for name := range l.Spend {
		names[name] = true
	}
	for a := range rl.engine.Accounts {
		if a.Spend != nil || a.Month != nil || a.Recent != nil {
			names[a.Name] = true
		}
		work.Next()
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		is := l.Spend[name]
		rl.engine.LoadSpendOver(s.spent, name, is, rl.nowAtLocked(work.Instant))
		if a := rl.engine.Spender(name); is.Recent != "" && (a == nil || a.Recent == nil) { // others count it
			is.Recent = ""
			l.Spend[name] = is
		}
		work.Next()
	}
	s.spent = l.Spend
}
