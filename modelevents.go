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

// eventRLocked makes an event that no caller is there for; nil if it is not to be told.
func (t *teller) eventRLocked(is Event) (e *telling) {
	if t == nil {
		return nil
	}
	if e = newTelling(background, is.Kind, t.outlet.Begin()); e != nil {
		e.Event = is
	}
	return e
}

// tellOf tells what a caller has done with a model.
func (t *teller) tellOf(ctx context.Context, model string, is Event) {
	t.rl.mu.RLock()
	e := t.eventRLocked(is)
	if e != nil {
		e.ctx = ctx
		t.nameRLocked(e, model)
	}
	t.rl.mu.RUnlock()
	t.tell(e)
}

// cooledLocked tells that this limiter began a cooldown, and has its end told.
func (t *teller) cooledLocked(a *account.Account, asked string) {
	e := t.eventRLocked(Event{Kind: EventCooldownBegan, Cause: Cause(a.CoolCause), Until: time.Unix(0, a.CoolUntil)})
	if e == nil {
		return
	}
	if pool, is := state.PoolOf(a.Name); is {
		e.Pool = pool
	} else {
		t.nameRLocked(e, strings.Clone(asked)) // which may be a part of a longer string
	}
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
		if e := t.eventRLocked(Event{Kind: EventCooldownEnded, Cause: Cause(c.Cause)}); e != nil {
			t.nameCountedRLocked(e, c.Name)
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
	e := t.eventRLocked(Event{Kind: EventQuotaChanged, By: by})
	if e == nil {
		return
	}
	if t.nameCountedRLocked(e, name); e.Pool == "" {
		e.Model = name // that of a quota, which may be a pattern
	}
	if has {
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
	if t != nil {
		t.tellOf(background, model, Event{Kind: EventRecorded, ID: notice.NextCallID(), Settled: usage(used), Cost: cost})
	}
}

// metUnknownRLocked tells of a model without a quota.
func (t *teller) metUnknownRLocked(model, nearest string) {
	if e := t.eventRLocked(Event{Kind: EventUnknownModel, Nearest: nearest}); e != nil {
		t.nameRLocked(e, strings.Clone(model))
		t.postRLocked(e)
	}
}

// evictedLocked tells that the usage of a model was forgotten.
func (t *teller) evictedLocked(name string) {
	if e := t.eventRLocked(Event{Kind: EventEvicted}); e != nil {
		t.nameRLocked(e, name)
		t.postLaxRLocked(e)
	}
}

// storeRLocked tells that the store cannot be used, because of err, or that it can again.
func (t *teller) storeRLocked(system string, err error) {
	kind := EventStoreUp
	if err != nil {
		kind = EventStoreDown
	}
	t.postRLocked(t.eventRLocked(Event{Kind: kind, System: system, Err: err}))
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
	is := Event{Kind: EventSaved, System: system, Operation: operation, Took: time.Since(began), Err: err}
	t.rl.mu.RLock()
	defer t.rl.mu.RUnlock()
	if e := t.eventRLocked(is); e != nil {
		t.postLaxRLocked(e)
	}
}
