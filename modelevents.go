package ratelimit

import (
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/callctx"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
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

// cooled is the cooldowns that were told to have begun and not to have ended, by the counted names
// of their models. Their number is bounded as that of all cooldowns is.
type cooled struct {
	causes map[string]Cause
	timer  *time.Timer // looks whether the next has ended; nil until there was one
}

func (c *cooled) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	clear(c.causes)
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
	name = strings.Clone(name) // see stateLocked
	t.nameRLocked(e, strings.Clone(requested))
	e.Cause, e.Until = Cause(c.Cause), c.Until
	t.pendLocked(e)
	if t.cooled.causes == nil {
		t.cooled.causes = make(map[string]Cause)
	}
	t.cooled.causes[name] = e.Cause
	t.sleepLocked()
}

// sleepLocked looks again when the next of the told cooldowns ends.
func (t *teller) sleepLocked() {
	var next int64 = never
	for name := range t.cooled.causes {
		next = min(next, t.rl.cooldowns[name].Until.UnixNano())
	}
	if next == never {
		return
	}
	wait := min(time.Duration(max(next-t.rl.clock.UnixNano(t.rl.clock.Sync()), 0)), mostSleep)
	if t.cooled.timer == nil {
		t.cooled.timer = time.AfterFunc(wait, t.look)
	} else {
		t.cooled.timer.Reset(wait)
	}
}

// look tells which cooldowns have ended.
func (t *teller) look() {
	t.rl.mu.Lock()
	ended := t.thawedLocked()
	if len(t.cooled.causes) > 0 {
		t.sleepLocked()
	}
	t.rl.mu.Unlock()
	t.tell(ended)
}

// thawedLocked returns the events of the told cooldowns that have ended.
func (t *teller) thawedLocked() (ended *telling) {
	if t == nil || len(t.cooled.causes) == 0 {
		return nil
	}
	wall := t.rl.clock.UnixNano(t.rl.clock.Sync())
	for name, cause := range t.cooled.causes {
		if until, _ := t.rl.cooldowns.Of(name, wall); until > wall {
			continue
		}
		delete(t.cooled.causes, name)
		if e := t.makeRLocked(background, EventCooldownEnded); e != nil {
			t.nameRLocked(e, name)
			e.Cause = cause
			ended = e.then(ended)
		}
	}
	return ended
}

// requotedLocked notes that another quota holds, or none any more. The method that changed it tells
// of that; of what other processes say, a goroutine of the limiter.
func (t *teller) requotedLocked(name, by string, is ModelQuota, has bool) {
	if t == nil {
		return
	}
	e := t.makeRLocked(background, EventQuotaChanged)
	if e == nil {
		return
	}
	t.nameRLocked(e, name)
	e.Model = name // that of a quota, which may be a pattern
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
func (t *teller) recorded(model string, used tokens.Count) {
	if t == nil {
		return
	}
	t.rl.mu.RLock()
	e := t.makeRLocked(background, EventRecorded)
	if e != nil {
		t.nameRLocked(e, model)
		e.ID, e.Settled = callctx.NextID(), usageOf(used)
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

// The operations of EventSaved.
const (
	saveOperation = "save"
	stepOperation = "step"
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
