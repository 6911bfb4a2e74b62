package ratelimit

import (
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/chores"
)

// BackgroundPrune forgets expired usage at every interval, in a goroutine of its own. It holds up
// others for about a millisecond at a time. An interval of zero or less does nothing. The returned
// function, which may be called more than once, stops it, and returns when no prune runs any more.
// Close stops it as well.
func (rl *RateLimiter) BackgroundPrune(interval time.Duration) (stop func()) {
	if interval <= 0 {
		return func() {}
	}
	rl.mu.Lock()
	closing := rl.closingLocked()
	rl.mu.Unlock()
	return chores.Every(interval, closing, func() {
		if rl.shared == nil { // where it is not, what has expired goes with the next command, in all processes
			rl.adoptAll()
			rl.walk(rl.engine.Tidy)
		}
	})
}

// byHand is an entry of State that the engine does not count yet.
type byHand struct {
	name  string
	entry *UsageStats
	was   UsageStats
}

// adoptAll has the engine know all that the program has changed. It lets other calls in, and puts
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
		e.adoptLocked(rl, p, rl.nowLocked())
		rl.mu.Unlock()
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now = rl.nowLocked()
	rl.engine.Serve(now)
	rl.leaveLocked(now)
}

// findByHand has the engine know what was changed by hand, and returns the entries of State.
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
		case !entry.isCountedBy(rl.engine.Account(name)):
			entries = append(entries, byHand{name, entry, *entry})
		}
		work.Next()
	}
	return entries, rl.nowAtLocked(work.Instant)
}

// isCountedBy reports whether an account counts what the entry shows.
func (s *UsageStats) isCountedBy(a *account.Account) bool {
	return a != nil && shownBy(s) == a.Usage() && s.account == a && a.Mirrors()
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

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

// adoptLocked has the engine count the entry, whose slices were put in order.
func (e *byHand) adoptLocked(rl *RateLimiter, p *account.Prepared, now account.Now) {
	entry := rl.State[e.name]
	if entry != e.entry || entry == nil || entry.isCountedBy(rl.engine.Account(e.name)) {
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
	rl.adoptEntryLocked(e.name, entry, p, known.Has, now)
}
