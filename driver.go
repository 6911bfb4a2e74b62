package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// driver has what the engine has not: a clock, the days and months of zones, and a timer. The lock
// of the limiter guards it.
type driver struct {
	engine  *engine.Engine // all that is decided by; nil in a zero RateLimiter until it is needed
	shared  *shared        // nil where no other process has a part in the quota
	clock   clock.Clock
	zoned   account.Span // as long as the wall clock is in it, the engine knows the days of all zones
	timer   *time.Timer  // wakes the limiter; nil until something has to happen by itself
	firesAt int64        // the instant for which it is set; account.Never where it is not
}

// readyLocked makes what a zero RateLimiter lacks.
func (rl *RateLimiter) readyLocked() {
	if rl.engine == nil {
		rl.engine = engine.New(engine.DrawSeed(), observer{rl})
		rl.engine.SetMaxModels(rl.maxModels)
		if rl.naming.MatchVersions {
			rl.engine.Rename = rl.nameRLocked
		}
		rl.engine.Keep(rl.span())
	}
}

// nowLocked reads the clock, and tells the engine the days and months that last.
func (rl *RateLimiter) nowLocked() account.Now {
	rl.readyLocked()
	return rl.nowAtLocked(rl.clock.Sync()) // which tells the times of this process, too
}

// nowAtLocked is RateLimiter.nowLocked for an instant that is now, or was a moment ago.
func (d *driver) nowAtLocked(instant int64) account.Now {
	if d.shared != nil {
		return d.shared.now()
	}
	now := account.Now{Instant: instant, Wall: d.clock.UnixNano(instant)}
	if !d.zoned.Holds(now.Wall) {
		d.zoned = d.engine.TellZones(state.BoundsOf, now)
	}
	return now
}

// nowRLocked is RateLimiter.nowLocked for those who only read; ok is false where that has to be
// called.
func (d *driver) nowRLocked() (now account.Now, ok bool) {
	if d.engine == nil {
		return now, false
	}
	now.Instant = d.clock.Now()
	now.Wall = d.clock.UnixNano(now.Instant)
	return now, !d.clock.Due(now.Instant) && d.zoned.Holds(now.Wall)
}

// agoLocked returns how long a time of this process is ago, in nanoseconds.
func (d *driver) agoLocked(at time.Time, now account.Now) int64 {
	if d.shared != nil {
		now.Instant = d.clock.Now() // that of the store differs
	}
	return int64(d.clock.At(now.Instant).Sub(d.clock.Own(at)))
}

// openLocked visits the open calls of this limiter.
func (d *driver) openLocked(yield func(*account.Call) bool) {
	if d.shared == nil {
		d.engine.Open(yield)
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(d.shared.calls), account.ID.Compare) {
		if !yield(d.shared.calls[id]) {
			return
		}
	}
}

// isStaleRLocked reports whether something of an account has expired.
func (d *driver) isStaleRLocked(a *account.Account, now account.Now) bool {
	return d.shared == nil && a.Name != "" && a.IsStale(now, d.engine.Span())
}

// localLocked returns what this process notes beside an account.
func (d *driver) localLocked(a *account.Account) *local {
	is, _ := a.Local.(*local)
	if is == nil || is.home != d {
		is = &local{home: d}
		a.Local = is
	}
	return is
}

// sleepLocked has the timer call wake at an instant.
func (d *driver) sleepLocked(due int64, now account.Now, wake func()) {
	d.firesAt = due
	switch {
	case d.timer == nil && due == account.Never:
	case due == account.Never:
		d.timer.Stop()
	case d.timer == nil:
		d.timer = time.AfterFunc(time.Duration(due-now.Instant), wake)
	default:
		d.timer.Reset(time.Duration(due - now.Instant))
	}
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
		rl.sleepLocked(due, now, rl.wake)
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

// observer tells a limiter what its engine does by itself.
type observer struct{ rl *RateLimiter }

// Shown puts the usage of an account into State.
func (o observer) Shown(a *account.Account) {
	rl := o.rl
	rl.localLocked(a)
	if a.IsPool() {
		return
	}
	if rl.State == nil {
		rl.State = make(map[string]*UsageStats)
		rl.seen.state = rl.State
	}
	rl.State[a.Name] = entryOf(a.Usage())
}

// Hidden takes the usage of an account out of State.
func (o observer) Hidden(a *account.Account, evicted bool) {
	if stats := o.rl.State[a.Name]; stats != nil && shownBy(stats) == a.Usage() {
		delete(o.rl.State, a.Name)
	}
	if evicted && o.isOurs() {
		o.rl.teller.evictedLocked(a.Name)
	}
}

// Requoted puts a quota into Quotas, or takes it out.
func (o observer) Requoted(c catalog.Change) {
	rl := o.rl
	rl.quotaVersion++
	if c.Has && c.Is.LimitsSpend() {
		rl.priceLocked()
	}
	switch {
	case state.IsPool(c.Name):
	case !c.Has:
		delete(rl.Quotas, c.Name)
	default:
		if rl.Quotas == nil {
			rl.Quotas = make(map[string]ModelQuota)
		}
		rl.Quotas[c.Name] = ModelQuota(c.Is)
	}
	rl.seen.quotas, rl.seen.named = rl.Quotas, len(rl.Quotas)
	if c.Changed() {
		rl.teller.requotedLocked(c.Name, rl.sayer, ModelQuota(c.Is), c.Has)
	}
}

// Cooled tells of a cooldown.
func (o observer) Cooled(a *account.Account, asked string) {
	if o.isOurs() {
		o.rl.teller.cooledLocked(a, asked)
	}
}

// isOurs reports whether this process has brought about what is told.
func (o observer) isOurs() bool { return o.rl.shared == nil || o.rl.shared.own }

// Asked notes what the model of a Reserve has used before it.
func (o observer) Asked(reqs []engine.Request, now account.Now) {
	if s := o.rl.shared; s != nil && s.own {
		s.before = ModelStats{}
		s.before.count(reqs[0].Account, o.rl.span(), now)
	}
}

// Ended ends a reservation that nobody has settled in time.
func (o observer) Ended(c *account.Call, how account.How, now account.Now) {
	if o.rl.shared != nil {
		o.rl.shared.expiredLocked(c.ID, how, now)
		return
	}
	o.rl.teller.postRLocked(o.rl.endedLocked(c, how, c.Tokens, now))
}
