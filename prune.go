package ratelimit

import (
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/chores"
)

// walk visits every account with the lock held, and lets other calls in at least every millisecond
// or so. Accounts that come or go meanwhile may be missed.
func (rl *RateLimiter) walk(visit func(a *account.Account, now account.Now)) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.readyLocked()
	work := chores.NewWorker(&rl.mu, &rl.clock)
	for a := range rl.engine.Accounts {
		visit(a, rl.nowAtLocked(work.Instant))
		work.Next()
	}
}

// nowAtLocked is nowLocked for an instant that is now, or was a moment ago.
func (rl *RateLimiter) nowAtLocked(instant int64) account.Now {
	if rl.shared != nil {
		return rl.shared.now()
	}
	now := account.Now{Instant: instant, Wall: rl.clock.UnixNano(instant)}
	if !rl.zoned.Holds(now.Wall) {
		rl.zoned = tellZones(rl.engine, now)
	}
	return now
}

// byHand is an entry of State that the engine does not count yet.
type byHand struct {
	name  string
	entry *UsageStats
	was   UsageStats
}

// adoptAll is adoptAllLocked for those who do not hold the lock: it lets other calls in, and puts
// entries in order without the lock, because a program that filled State by hand may have left
// many. Nobody writes into the slices of an entry that the engine does not count.
func (rl *RateLimiter) adoptAll() {
	entries, now := rl.findByHand()
	if len(entries) == 0 {
		return
	}
	slices.SortFunc(entries, func(a, b byHand) int { return strings.Compare(a.name, b.name) })
	for i := range entries {
		e := &entries[i]
		p := account.Prepare(e.was.Requests, shownBy(&e.was).Tokens, now)
		rl.mu.Lock()
		rl.adoptByHandLocked(e, p, rl.nowLocked())
		rl.mu.Unlock()
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now = rl.nowLocked()
	rl.engine.Serve(now)
	rl.leaveLocked(now)
}

// findByHand has the engine know what the program has changed by hand, but for entries of State,
// which it returns.
func (rl *RateLimiter) findByHand() (entries []byHand, now account.Now) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now = rl.nowLocked()
	work := chores.NewWorker(&rl.mu, &rl.clock)
	rl.adoptQuotasLocked(now)
	for name, q := range rl.Quotas {
		rl.noticeLocked(name, q, rl.nowAtLocked(work.Instant))
		work.Next()
	}
	for a := range rl.engine.Accounts {
		if a.IsShown() && !a.IsPool() && rl.State[a.Name] == nil {
			rl.adoptStatsLocked(a.Name, rl.nowAtLocked(work.Instant))
		}
		work.Next()
	}
	rl.seen.state = rl.State
	for name, entry := range rl.State {
		switch {
		case entry == nil:
			delete(rl.State, name)
		case !rl.isAdoptedLocked(name, entry):
			entries = append(entries, byHand{name, entry, *entry})
		}
		work.Next()
	}
	return entries, rl.nowAtLocked(work.Instant)
}

// isAdoptedLocked reports whether the engine counts what an entry of State shows.
func (rl *RateLimiter) isAdoptedLocked(name string, entry *UsageStats) bool {
	a := rl.engine.Account(name)
	return a != nil && shownBy(entry) == a.Usage() && entry.account == a && a.Mirrors()
}

// adoptByHandLocked has the engine count an entry, whose slices were put in order.
func (rl *RateLimiter) adoptByHandLocked(e *byHand, p *account.Prepared, now account.Now) {
	entry := rl.State[e.name]
	if entry != e.entry || entry == nil || rl.isAdoptedLocked(e.name, entry) {
		return
	}
	if entry.DayStart != e.was.DayStart || !sameSlice(entry.Requests, e.was.Requests) || !sameSlice(entry.Tokens, e.was.Tokens) {
		rl.adoptStatsLocked(e.name, now)
		return
	}
	var known account.Mark // of no charge
	if a := rl.engine.Account(e.name); a != nil && a.Usage() == shownBy(entry) {
		known = a.Save()
	}
	rl.adoptPreparedLocked(e.name, entry, p, known.Has, now)
}

// adoptPreparedLocked has the engine count an entry, which may be that of a pool.
func (rl *RateLimiter) adoptPreparedLocked(name string, entry *UsageStats, p *account.Prepared, keeps func(*account.Charge) bool, now account.Now) *account.Account {
	_, q, _ := rl.engine.Catalog.Cover(name)
	a := rl.engine.AdoptPrepared(name, shownBy(entry), p, dayFrom(entry.DayStart, q.DayZone), keeps, now)
	rl.localLocked(a)
	return a
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// prune forgets the expired usage of all models.
func (rl *RateLimiter) prune() {
	if rl.shared != nil {
		return // what has expired goes with the next command, in all processes
	}
	rl.adoptAll()
	rl.walk(rl.engine.Tidy)
}

// BackgroundPrune forgets expired usage at every interval, in a goroutine of its own, so that
// unused models do not hold memory. It holds up other calls for about a millisecond at a time at
// most. An interval of zero or less does nothing.
//
// The returned function stops it, and once that has returned no prune runs; it may be called more
// than once. Close stops it as well. BackgroundPrune is safe for concurrent use.
func (rl *RateLimiter) BackgroundPrune(interval time.Duration) (stop func()) {
	if interval <= 0 {
		return func() {}
	}
	rl.mu.Lock()
	closing := rl.closingLocked()
	rl.mu.Unlock()
	return chores.Every(interval, closing, rl.prune)
}
