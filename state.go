package ratelimit

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Quotas and State belong to the program, and the engine has the same. This file is the door
// between them: each method asks here whether the program has put something else there by hand.

// seen is the maps of the program as the engine knows them.
type seen struct {
	quotas map[string]ModelQuota
	named  int // the length of quotas
	state  map[string]*UsageStats
}

// local is what this process notes beside an account.
type local struct {
	home *RateLimiter
	counted
	marks marks
}

// entryOf shows the usage of an account as an entry of State, and shownBy is the reverse: the types
// have the same layout, which TestLayout makes sure of.
func entryOf(u *account.Usage) *UsageStats { return (*UsageStats)(unsafe.Pointer(u)) }

func shownBy(s *UsageStats) *account.Usage { return (*account.Usage)(unsafe.Pointer(s)) }

// sameMap reports whether two maps are one: the value of a map is a pointer.
func sameMap[K comparable, V any](a, b map[K]V) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
}

// readyLocked makes what a zero RateLimiter lacks.
func (rl *RateLimiter) readyLocked() {
	if rl.engine == nil {
		rl.engine = engine.New(rand.Uint64(), observer{rl})
		rl.engine.SetMaxModels(rl.maxModels)
		if rl.naming.MatchVersions {
			rl.engine.Rename = rl.nameRLocked
		}
		rl.engine.Keep(rl.span())
		rl.firesAt = account.Never
	}
}

// nowLocked reads the clock, and tells the engine the days and months that last.
func (rl *RateLimiter) nowLocked() account.Now {
	if rl.shared != nil {
		rl.clock.Sync() // which tells the times of this process
		return rl.shared.now()
	}
	rl.readyLocked()
	instant := rl.clock.Sync()
	now := account.Now{Instant: instant, Wall: rl.clock.UnixNano(instant)}
	if !rl.zoned.Holds(now.Wall) {
		rl.zoned = tellZones(rl.engine, now)
	}
	return now
}

// nowRLocked is nowLocked for those who only read; ok is false where nowLocked has to be called.
func (rl *RateLimiter) nowRLocked() (now account.Now, ok bool) {
	if rl.engine == nil {
		return now, false
	}
	now.Instant = rl.clock.Now()
	now.Wall = rl.clock.UnixNano(now.Instant)
	return now, !rl.clock.Due(now.Instant) && rl.zoned.Holds(now.Wall)
}

// timeRLocked returns the time at an instant.
func (rl *RateLimiter) timeRLocked(instant int64) time.Time {
	if rl.shared != nil {
		return time.Unix(0, rl.shared.now().WallAt(instant))
	}
	return rl.clock.At(instant)
}

// agoLocked returns how long a time of this process is ago, in nanoseconds.
func (rl *RateLimiter) agoLocked(at time.Time, now account.Now) int64 {
	if rl.shared != nil {
		now.Instant = rl.clock.Now() // that of the store differs
	}
	return int64(rl.clock.At(now.Instant).Sub(rl.clock.Own(at)))
}

// tellZones tells an engine the present day and month of the zones that it asks for, and returns
// for how long it knows them all.
func tellZones(e *engine.Engine, now account.Now) (known account.Span) {
	var names []string
	e.Zones(now.Wall, func(name string) { names = append(names, name) })
	for _, name := range names {
		tellZone(e, name, now)
	}
	return e.ZonesKnown(now.Wall)
}

// tellZone tells an engine the day and the month of a zone. One that this machine does not know is
// told of nothing, so that its quotas admit nothing.
func tellZone(e *engine.Engine, name string, now account.Now) {
	if day, month := boundsOf(name, now.Wall); month != (account.Span{}) {
		e.Bounds(name, day, month, now)
	}
}

// boundsOf returns the day and the month of a zone that last at a time; zero for a zone that this
// machine does not know. The zone "" has a month alone.
func boundsOf(name string, wall int64) (day, month account.Span) {
	zone, err := clock.LoadZone(name)
	if err != nil {
		return day, month
	}
	at := time.Unix(0, wall)
	if zone != nil {
		day = spanOf(clock.Day(at, zone))
	}
	return day, spanOf(clock.Month(at, zone))
}

func spanOf(begin, end time.Time) account.Span {
	return account.Span{Begin: clock.UnixNano(begin), End: clock.UnixNano(end)}
}

// lookRLocked returns the present moment, and puts into t what the name of a model stands for; ok
// is false where enterLocked has to be called, because something has to be brought in order first.
func (rl *RateLimiter) lookRLocked(model string, t *engine.Target) (now account.Now, ok bool) {
	if rl.shared != nil {
		ok = rl.engine.FindIn(t, rl.nameRLocked(model), model)
		return rl.shared.now(), ok && rl.shared.refusesRLocked() == nil
	}
	if now, ok = rl.nowRLocked(); !ok {
		return now, false
	}
	counted := rl.nameRLocked(model)
	if a := rl.shownRLocked(counted); a != nil {
		t.Account, t.Counted, t.Asked = a, a.Name, model
		return now, rl.engine.FindPools(t)
	}
	if _, exists := rl.State[counted]; exists {
		return now, false
	}
	if ok = rl.engine.FindIn(t, counted, model); !ok || t.Account.IsShown() {
		return now, false
	}
	return now, rl.knowsQuotaRLocked(counted, t.Account)
}

// shownRLocked returns the account of a counted name that State shows, if the engine knows what the
// program says of it; else nil.
func (rl *RateLimiter) shownRLocked(counted string) *account.Account {
	stats := rl.State[counted]
	if stats == nil {
		return nil
	}
	a := stats.account
	if a == nil || entryOf(a.Usage()) != stats || !a.Mirrors() {
		return nil
	}
	if is, _ := a.Local.(*local); is == nil || is.home != rl {
		return nil
	}
	// One look at the map is enough where the quota limits something: one that is not there does
	// not.
	if q := rl.Quotas[counted]; a.Listed && !a.Has(account.Unlimited) && a.Quota.Is((*state.Quota)(&q)) || rl.knowsQuotaRLocked(counted, a) {
		return a
	}
	return nil
}

// knowsQuotaRLocked reports whether the engine knows what Quotas says of a counted name.
func (rl *RateLimiter) knowsQuotaRLocked(counted string, a *account.Account) bool {
	if q, own := rl.Quotas[counted]; own {
		return (a.Name != "" || a.Listed) && a.Quota.Is((*state.Quota)(&q))
	}
	return len(rl.Quotas) == rl.seen.named && sameMap(rl.Quotas, rl.seen.quotas)
}

// enterLocked is lookRLocked for a method that may change something: it brings in order what the
// program has changed by hand.
func (rl *RateLimiter) enterLocked(model string) (now account.Now, t engine.Target) {
	now = rl.enterForLocked(model, &t)
	return now, t
}

// enterForLocked is enterLocked, which puts what it finds into t.
func (rl *RateLimiter) enterForLocked(model string, t *engine.Target) account.Now {
	now, ok := rl.lookRLocked(model, t)
	if !ok {
		now = rl.nowLocked()
		counted := rl.adoptLocked(model, now)
		*t = rl.engine.Resolve(counted, model)
	}
	return now
}

// adoptLocked has the engine know what the program says of a model, and returns the name under
// which that is counted.
func (rl *RateLimiter) adoptLocked(model string, now account.Now) (counted string) {
	counted = rl.adoptQuotaLocked(model, now)
	if rl.shared == nil {
		rl.adoptStatsLocked(counted, now)
	}
	return counted
}

// adoptQuotaLocked is adoptLocked for the quota alone.
func (rl *RateLimiter) adoptQuotaLocked(model string, now account.Now) (counted string) {
	if rl.shared != nil {
		return rl.nameRLocked(model)
	}
	rl.adoptQuotasLocked(now)
	counted = rl.nameRLocked(model)
	if q, own := rl.Quotas[counted]; own {
		rl.noticeLocked(counted, q, now)
	}
	return counted
}

// adoptQuotasLocked has the engine know all quotas where there is another map, or another number of
// them.
func (rl *RateLimiter) adoptQuotasLocked(now account.Now) {
	if rl.shared != nil || len(rl.Quotas) == rl.seen.named && sameMap(rl.Quotas, rl.seen.quotas) {
		return
	}
	for _, name := range rl.engine.Catalog.Names() {
		if _, has := rl.Quotas[name]; !has {
			rl.engine.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.Notice(name, state.Quota{}, false) }, now)
		}
	}
	for name, q := range rl.Quotas {
		rl.noticeLocked(name, q, now)
	}
	rl.seen.quotas, rl.seen.named = rl.Quotas, len(rl.Quotas)
}

// noticeLocked has the engine know a quota that the program put into Quotas.
func (rl *RateLimiter) noticeLocked(name string, q ModelQuota, now account.Now) {
	if is, has := rl.engine.Catalog.Quota(name); !has || is != state.Quota(q) {
		rl.sayer = byProgram
		rl.engine.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.Notice(name, state.Quota(q), true) }, now)
		rl.saidLocked(now)
	}
}

// adoptStatsLocked has the engine know the entry of State of a counted name.
func (rl *RateLimiter) adoptStatsLocked(counted string, now account.Now) {
	stats, exists := rl.State[counted]
	a := rl.engine.Account(counted)
	switch {
	case stats == nil:
		if exists {
			delete(rl.State, counted)
		}
		if a != nil && a.IsShown() {
			rl.engine.Hide(counted, now)
		}
	case a != nil && shownBy(stats) == a.Usage():
		if !a.Mirrors() {
			rl.adoptEntryLocked(counted, stats, now, func(*account.Charge) bool { return true })
		}
	default:
		rl.adoptEntryLocked(counted, stats, now, func(*account.Charge) bool { return false })
	}
}

// adoptChargedLocked has the engine know what the program has changed by hand of what a call has
// charged.
func (rl *RateLimiter) adoptChargedLocked(c *account.Call) {
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil && a.IsShown() && !a.Mirrors() {
			rl.adoptStatsLocked(a.Name, rl.nowLocked())
		}
	}
}

// adoptEntryLocked has the engine count what an entry of State shows.
func (rl *RateLimiter) adoptEntryLocked(counted string, stats *UsageStats, now account.Now, keeps func(*account.Charge) bool) {
	_, q, _ := rl.engine.Catalog.Cover(counted)
	rl.engine.Adopt(counted, shownBy(stats), dayFrom(stats.DayStart, q.DayZone), keeps, now)
	rl.localLocked(rl.engine.Account(counted))
}

// dayFrom returns the day that began at a time: a day of 24 hours, or one that ends at the next
// midnight of a zone.
func dayFrom(start time.Time, zone string) account.Span {
	begin := clock.UnixNano(start)
	if at, err := clock.LoadZone(zone); err == nil && at != nil {
		_, end := clock.Day(start, at)
		return account.Span{Begin: begin, End: clock.UnixNano(end)}
	}
	return account.Span{Begin: begin, End: begin + int64(24*time.Hour)}
}

// adoptAllLocked has the engine know all that the program has changed.
func (rl *RateLimiter) adoptAllLocked(now account.Now) {
	rl.adoptQuotasLocked(now)
	if !sameMap(rl.State, rl.seen.state) {
		for a := range rl.engine.Accounts {
			if a.IsShown() && !a.IsPool() && rl.State[a.Name] == nil {
				rl.adoptStatsLocked(a.Name, now)
			}
		}
		rl.seen.state = rl.State
	}
	for name := range rl.State {
		rl.adoptStatsLocked(name, now)
	}
}

// localLocked returns what this process notes beside an account.
func (rl *RateLimiter) localLocked(a *account.Account) *local {
	is, _ := a.Local.(*local)
	if is == nil || is.home != rl {
		is = &local{home: rl}
		a.Local = is
	}
	return is
}

// leaveLocked ends what a method that changed something began: those that were served or refused
// learn of it, and the engine is called again when it has to be.
func (rl *RateLimiter) leaveLocked(now account.Now) {
	due := rl.teller.looksAtRLocked()
	if rl.shared == nil {
		if rl.engine.HasDone() {
			for _, w := range rl.engine.Done() {
				w.Local.(*waiter).endLocked(w)
			}
		}
		due = min(due, rl.engine.Due())
	}
	if due != rl.firesAt {
		rl.sleepLocked(due, now)
	}
}

// sleepLocked has the timer fire at an instant.
func (rl *RateLimiter) sleepLocked(due int64, now account.Now) {
	rl.firesAt = due
	switch {
	case rl.timer == nil && due == account.Never:
	case due == account.Never:
		rl.timer.Stop()
	case rl.timer == nil:
		rl.timer = time.AfterFunc(time.Duration(due-now.Instant), rl.wake)
	default:
		rl.timer.Reset(time.Duration(due - now.Instant))
	}
}

// wake has happen what is due when the timer fires.
func (rl *RateLimiter) wake() {
	defer rl.teller.flush()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	rl.firesAt = account.Never
	if rl.shared == nil {
		rl.engine.Advance(now)
	}
	rl.teller.lookLocked(now)
	rl.leaveLocked(now)
}

// mostModels is the bound on models without a quota of their own that hold state.
func (rl *RateLimiter) mostModels() int { return cmp.Or(rl.maxModels, engine.DefaultMaxModels) }

// openLocked visits the open calls of this limiter.
func (rl *RateLimiter) openLocked(yield func(*account.Call) bool) {
	if rl.shared == nil {
		rl.engine.Open(yield)
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(rl.shared.calls), account.ID.Compare) {
		if !yield(rl.shared.calls[id]) {
			return
		}
	}
}
