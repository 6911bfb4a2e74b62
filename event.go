package ratelimit

import (
	"context"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// EventHandler is told what a limiter does: see Config.Events. Packages otelratelimit and
// promratelimit, and LogEvents, have handlers for OpenTelemetry, Prometheus and log/slog.
type EventHandler interface {
	// HandleEvent is called for each event, without locks held, often from several goroutines at a
	// time. It must return quickly, because the call that the event tells of waits for it. It may
	// call the limiter. A panic is reported to Config.OnError, and stops no call. While a handler
	// is stuck, at most 65,536 events of no caller wait for it.
	//
	// Events of different goroutines may arrive in another order than they happened.
	//
	// The event belongs to the limiter again when HandleEvent returns: copy what is to be kept, and
	// what Decision and Quota point to. ctx is that of Acquire, Do or ReserveContext, or of the
	// request of an llmhttp.Transport, also at the settlement; else it is context.Background.
	HandleEvent(ctx context.Context, e *Event)
}

// EventKind is the type of an [Event]. The values are stable: programs may store and compare them.
type EventKind string

// The events of a call. While no method is under way, EventAdmitted less EventSettled,
// EventReleased and EventExpired is the number of open reservations of this limiter.
const (
	// EventQueued reports that a call stands in line, in Acquire, AcquireAll, Do or
	// WaitForCapacity. Decision and Estimated are set. Admission, pass or refusal follows.
	EventQueued EventKind = "queued"
	// EventAdmitted reports that a reservation was made; of several that were made together there
	// is one for each, with the same ID. Estimated and Wait are set, after a wait Decision, too.
	EventAdmitted EventKind = "admitted"
	// EventPassed reports that WaitForCapacity returned after a wait in line, without a
	// reservation. Estimated, Wait and Decision are set.
	EventPassed EventKind = "passed"
	// EventRefused reports that a call got no reservation. Estimated, Wait and Decision are set,
	// Decision not where the context had ended before. Err is the method's error, if any.
	EventRefused EventKind = "refused"
	EventSettled EventKind = "settled" // Commit; Estimated, Settled and Held are set
	// EventReleased reports the end of a reservation without a Commit: by Cancel, which gives all
	// of it back, or by Close, which leaves it charged. Estimated, Settled and Held are set.
	EventReleased EventKind = "released"
	// EventExpired reports that a reservation was never settled: it is older than Config.HoldTTL,
	// or was garbage-collected. Its estimate stays charged. Estimated, Settled and Held are set.
	EventExpired  EventKind = "expired"
	EventRecorded EventKind = "recorded" // RecordUsage, which has nothing to do with reservations; Settled is set
)

// The events of models and of the limiter, without ID but for EventProviderRefused by llmhttp.
const (
	EventCooldownBegan   EventKind = "cooldown_began"   // this limiter began or prolonged a cooldown; Cause and Until are set
	EventCooldownEnded   EventKind = "cooldown_ended"   // one that was reported is over, by time or by Reset; Cause is set
	EventQuotaChanged    EventKind = "quota_changed"    // after the constructor another quota is in force, or none; Quota and By are set
	EventProviderRefused EventKind = "provider_refused" // ObserveRefusal; Status, Problem and RetryAfter are set
	// EventUnknownModel reports what *UnknownModelError does. Nearest is set.
	EventUnknownModel EventKind = "unknown_model"
	// EventUncounted reports a call of a model that nothing counts: see ObserveUncounted. Path and
	// Err, which says why, are set, and Model as far as it is known.
	EventUncounted EventKind = "uncounted"
	EventEvicted   EventKind = "evicted"    // the usage of a model was forgotten to make room for another: see Config.MaxModels
	EventStoreDown EventKind = "store_down" // the shared database or the store cannot be used; System and Err are set
	EventStoreUp   EventKind = "store_up"   // it can be used again; System is set
	// EventSaved reports a write to the state file or the store, or that it failed. System,
	// Operation, Took and Err are set. While a handler cannot keep up with them, some are left out.
	EventSaved EventKind = "saved"
)

// Event is one thing that a limiter did. It never contains a key, a prompt or a reply. Fields that
// the kind does not name are zero. Events may not be kept: see EventHandler.
type Event struct {
	Kind EventKind
	// ID is the same in all events of a call, in llmhttp.Event, too, and differs from that of every
	// other call of the process. Zero for events that are of no call.
	ID uint64
	// Model is the name under which the model is counted, and Requested the one that the caller
	// used. Both are empty in events of the limiter as a whole.
	Model, Requested string
	// Pool is the pool that an event of a quota or a cooldown is of, in which Model is empty then;
	// in EventQueued, EventRefused and what follows it is Decision.Pool.
	Pool string
	// Provider is the provider of the model, as far as the profiles tell; else empty.
	Provider Provider

	Class string // of the call, as far as it is one of Config.Classes; else empty

	Estimated Usage         // the estimate, which EventAdmitted has charged
	Settled   Usage         // what stays charged
	Cost      money.Amount  // what the call cost; of EventAdmitted the most that it can cost
	Wait      time.Duration // in line
	Held      time.Duration // from the admission to the settlement
	Decision  *Decision     // why a call was refused or had to wait; nil in other events
	Err       error         // nil where nothing failed

	Cause Cause     // of the cooldown
	Until time.Time // the end of the cooldown

	Quota *ModelQuota // that holds now; nil in other events, and where there is none any more
	// By says who changed the quota: "program", "profile", "account", "header" or "refusal" (a
	// report of the provider, with Config.LearnQuotas), "process" (another one, with
	// Config.Shared or Config.Store), or "file" (Load).
	By string

	Status     int           // the HTTP status of a refusal; zero where it is not known
	Problem    string        // see ProviderRefusal.Problem
	RetryAfter time.Duration // what the provider said; zero for nothing
	Nearest    string        // the known name that is most like an unknown one; empty for none
	Path       string        // of a request that nothing counts, or "others"

	System string // "yaml" or "sqlite", or what the store is, such as "redis"
	// Operation is "save", or "step" with Config.Shared and Config.Store. In the events of a call
	// it is "wait" for WaitForCapacity, which asks for no reservation.
	Operation string
	Took      time.Duration // the write
}

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
func (t *teller) recorded(model string, used state.Count, cost money.Amount) {
	if t != nil {
		t.tellOf(background, model, Event{Kind: EventRecorded, ID: notice.NextCallID(), Settled: usage(used), Cost: cost})
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
