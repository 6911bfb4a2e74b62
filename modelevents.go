package ratelimit

import (
	"context"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/notice"
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

// cooledLocked tells that this limiter began a cooldown, and has its end told.
func (t *teller) cooledLocked(a *account.Account, asked string) {
	if t == nil {
		return
	}
	e := t.makeRLocked(background, EventCooldownBegan)
	if e == nil {
		return
	}
	if pool, is := state.PoolOf(a.Name); is {
		e.Pool = pool
	} else {
		t.nameRLocked(e, strings.Clone(asked)) // which may be a part of a longer string
	}
	e.Cause, e.Until = Cause(a.CoolCause), time.Unix(0, a.CoolUntil)
	t.pendLocked(e)
	now := t.rl.engine.Last()
	t.cooled.Begin(a.Name, a.CoolCause, a.CoolUntil-now.Wall, now.Instant)
}

// looksAtRLocked returns the instant at which lookLocked is to be called; account.Never for none.
func (t *teller) looksAtRLocked() int64 {
	if t == nil {
		return account.Never
	}
	return t.cooled.LooksAt()
}

// lookLocked tells which cooldowns have ended, where it is time to look.
func (t *teller) lookLocked(now account.Now) {
	if t.looksAtRLocked() > now.Instant {
		return
	}
	t.pendLocked(t.thawedLocked())
	t.cooled.Look(now.Instant, t.coolsFor(now.Wall))
}

// thawedLocked returns the events of all told cooldowns that have ended, sorted by name.
func (t *teller) thawedLocked() (ended *telling) {
	if t == nil || t.cooled.LooksAt() == account.Never {
		return nil
	}
	if t.rl.naming.MatchVersions {
		t.cooled.Rename(func(name string) string {
			if state.IsPool(name) {
				return name
			}
			return t.rl.nameRLocked(name)
		})
	}
	for _, c := range t.cooled.End(t.coolsFor(t.rl.nowLocked().Wall)) {
		if e := t.makeRLocked(background, EventCooldownEnded); e != nil {
			t.nameCountedRLocked(e, c.Name)
			e.Cause = Cause(c.Cause)
			ended = ended.then(e)
		}
	}
	return ended
}

// coolsFor returns what tells how long what is counted under a name cools, from a time on.
func (t *teller) coolsFor(wall int64) func(name string) int64 {
	return func(name string) int64 {
		if a := t.rl.engine.Account(name); a != nil && a.CoolUntil > wall {
			return max(a.CoolUntil-wall, 1) // which may be more than an int64 has
		}
		return 0
	}
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
		e.ID, e.Settled, e.Cost = notice.NextCallID(), usage(used), cost
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
