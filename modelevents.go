package ratelimit

import (
	"context"
	"maps"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/callctx"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/eviction"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// The values of Event.By.
const (
	byProgram = "program"
	byProfile = "profile"
	byAccount = "account"
	byHeader  = "header"
	byRefusal = "refusal"
	byProcess = "process"
	byFile    = "file"
)

// cooled is the cooldowns that were told to have begun and not to have ended. Their number is
// bounded as that of all cooldowns is.
type cooled struct {
	told  map[string]*toldCooldown      // by the counted names of their models
	ends  eviction.Queue[*toldCooldown] // of the same, the first to end in front
	timer *time.Timer                   // looks whether the next has ended; nil until there was one
}

type toldCooldown struct {
	name     string
	cause    Cause
	end      int64 // in UnixNano, or later
	position int
}

// Before and Position are for cooled.ends.
func (c *toldCooldown) Before(other *toldCooldown) bool { return c.end < other.end }
func (c *toldCooldown) Position() *int                  { return &c.position }

func (c *cooled) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	clear(c.told)
	c.ends = eviction.Queue[*toldCooldown]{}
}

// mostSleep bounds how long the end of a cooldown is waited for at once: it follows the wall clock,
// and timers do not.
const mostSleep = time.Minute

// cooledLocked notes that this limiter began a cooldown.
func (t *teller) cooledLocked(name, requested string, c state.Cooldown) {
	if t == nil {
		return
	}
	e := t.makeRLocked(background, EventCooldownBegan)
	if e == nil {
		return
	}
	if pool, is := state.PoolOf(name); is {
		e.Pool = pool
	} else {
		t.nameRLocked(e, strings.Clone(requested)) // see stateLocked
	}
	e.Cause, e.Until = Cause(c.Cause), c.Until
	t.pendLocked(e)
	t.coolingLocked(strings.Clone(name), e.Cause)
}

// coolingLocked has the end of a cooldown told. That of a longer one is looked for when the shorter
// one would have ended.
func (t *teller) coolingLocked(name string, cause Cause) {
	if c := t.cooled.told[name]; c != nil {
		c.cause = cause
		return
	}
	if t.cooled.told == nil {
		t.cooled.told = make(map[string]*toldCooldown)
	}
	c := &toldCooldown{name: name, cause: cause, end: clock.UnixNano(t.rl.cooldowns[name].Until)}
	t.cooled.told[name] = c
	if t.cooled.ends.Put(c); t.cooled.ends.First() == c {
		t.sleepLocked()
	}
}

// sleepLocked looks again when the next of the told cooldowns ends.
func (t *teller) sleepLocked() {
	if t.cooled.ends.Len() == 0 {
		return
	}
	wait := min(time.Duration(max(t.cooled.ends.First().end-t.rl.clock.UnixNano(t.rl.clock.Sync()), 0)), mostSleep)
	if t.cooled.timer == nil {
		t.cooled.timer = time.AfterFunc(wait, t.look)
	} else {
		t.cooled.timer.Reset(wait)
	}
}

// look tells which cooldowns have ended.
func (t *teller) look() {
	var ended *telling
	t.rl.mu.Lock()
	wall := t.rl.clock.UnixNano(t.rl.clock.Sync())
	for t.cooled.ends.Len() > 0 && t.cooled.ends.First().end <= wall {
		c := t.cooled.ends.First()
		if until, _ := t.rl.cooldowns.Of(c.name, wall); until > wall {
			c.end = until
			t.cooled.ends.Put(c)
			continue
		}
		ended = t.thawLocked(c).then(ended)
	}
	t.sleepLocked()
	t.rl.mu.Unlock()
	t.tell(ended)
}

// thawLocked returns the event of a told cooldown that has ended.
func (t *teller) thawLocked(c *toldCooldown) *telling {
	t.forgetCoolingLocked(c)
	e := t.makeRLocked(background, EventCooldownEnded)
	if e != nil {
		t.nameCountedRLocked(e, c.name)
		e.Cause = c.cause
	}
	return e
}

func (t *teller) forgetCoolingLocked(c *toldCooldown) {
	delete(t.cooled.told, c.name)
	t.cooled.ends.Remove(c)
}

// thawedLocked returns the events of all told cooldowns that have ended.
func (t *teller) thawedLocked() (ended *telling) {
	if t == nil || t.before != nil || len(t.cooled.told) == 0 {
		return nil
	}
	wall := t.rl.clock.UnixNano(t.rl.clock.Sync())
	for _, c := range t.cooled.told {
		if until, _ := t.rl.cooldowns.Of(c.name, wall); until <= wall {
			ended = t.thawLocked(c).then(ended)
		}
	}
	return ended
}

// renameLocked follows changes of the names under which models are counted.
func (t *teller) renameLocked() {
	if t == nil {
		return
	}
	for name, c := range t.cooled.told {
		if now := t.rl.renamedRLocked(name); now != name {
			t.forgetCoolingLocked(c)
			t.coolingLocked(now, c.cause)
		}
	}
}

// quotasBefore is the quotas before memory is made anew from a log.
type quotasBefore struct{ quotas map[string]ModelQuota }

// rebuildLocked begins a time in which quotas and cooldowns are taken down and put back, so that
// only rebuiltLocked can tell what has changed.
func (t *teller) rebuildLocked() {
	if t != nil {
		t.before = &quotasBefore{maps.Collect(t.rl.allQuotasRLocked)}
	}
}

func (t *teller) rebuiltLocked() {
	if t == nil {
		return
	}
	before := t.before.quotas
	t.before = nil
	for name, q := range t.rl.allQuotasRLocked {
		if was, had := before[name]; !had || was != q {
			t.requotedLocked(name, byProcess, q, true)
		}
	}
	for name := range before {
		if _, has := t.rl.quotaRLocked(name); !has {
			t.requotedLocked(name, byProcess, ModelQuota{}, false)
		}
	}
	t.postRLocked(t.thawedLocked())
}

// requotedLocked notes that another quota holds, or none any more. The method that changed it tells
// of that; of what other processes say, a goroutine of the limiter.
func (t *teller) requotedLocked(name, by string, is ModelQuota, has bool) {
	if t == nil || t.before != nil {
		return
	}
	e := t.makeRLocked(background, EventQuotaChanged)
	if e == nil {
		return
	}
	if t.nameCountedRLocked(e, name); e.Pool == "" {
		e.Model = name // that of a quota, which may be a pattern
	}
	if e.By = by; has {
		e.quota = is
		e.Quota = &e.quota
	}
	if by == byProcess {
		t.postRLocked(e)
	} else {
		t.pendLocked(e)
	}
}

// recorded tells of a RecordUsage.
func (t *teller) recorded(model string, used tokens.Count, cost money.Amount) {
	if t == nil {
		return
	}
	t.rl.mu.RLock()
	e := t.makeRLocked(background, EventRecorded)
	if e != nil {
		t.nameRLocked(e, model)
		e.ID, e.Settled, e.Cost = callctx.NextID(), usageOf(used), cost
	}
	t.rl.mu.RUnlock()
	t.tell(e)
}

// refusedByProvider tells of a refusal by the provider.
func (t *teller) refusedByProvider(by *caller, r *ProviderRefusal) {
	if t == nil {
		return
	}
	t.rl.mu.RLock()
	e := t.makeRLocked(by.ctx, EventProviderRefused)
	if e != nil {
		e.ID = by.id
		t.nameRLocked(e, r.Model)
		e.Status, e.Problem, e.RetryAfter = r.Status, r.Problem, r.RetryAfter
	}
	t.rl.mu.RUnlock()
	t.tell(e)
}

// metUnknownRLocked tells of a model without a quota.
func (t *teller) metUnknownRLocked(model, nearest string) {
	if t == nil {
		return
	}
	if e := t.makeRLocked(background, EventUnknownModel); e != nil {
		t.nameRLocked(e, strings.Clone(model))
		e.Nearest = nearest
		t.postRLocked(e)
	}
}

// uncounted tells of a call that nothing counts.
func (t *teller) uncounted(ctx context.Context, path, model string, why error) {
	if t == nil {
		return
	}
	t.rl.mu.RLock()
	e := t.makeRLocked(callerOf(ctx).ctx, EventUncounted)
	if e != nil {
		t.nameRLocked(e, model)
		e.Path, e.Err = path, why
	}
	t.rl.mu.RUnlock()
	t.tell(e)
}

// evictedLocked tells that the usage of a model was forgotten.
func (t *teller) evictedLocked(name string) {
	if t == nil {
		return
	}
	if e := t.makeRLocked(background, EventEvicted); e != nil {
		t.nameRLocked(e, name)
		t.postLaxRLocked(e)
	}
}

// storeRLocked tells that the store cannot be used, because of err, or that it can again.
func (t *teller) storeRLocked(system string, err error) {
	if t == nil {
		return
	}
	kind := EventStoreUp
	if err != nil {
		kind = EventStoreDown
	}
	if e := t.makeRLocked(background, kind); e != nil {
		e.System, e.Err = system, err
		t.postRLocked(e)
	}
}

// The values of Event.Operation.
const (
	saveOperation = "save"
	stepOperation = "step"
	waitOperation = "wait"
)

// saved tells of a write that began at a time.
func (t *teller) saved(system, operation string, began time.Time, err error) {
	if t == nil {
		return
	}
	took := time.Since(began)
	t.rl.mu.RLock()
	defer t.rl.mu.RUnlock()
	if e := t.makeRLocked(background, EventSaved); e != nil {
		e.System, e.Operation, e.Took, e.Err = system, operation, took, err
		t.postLaxRLocked(e)
	}
}
