// Package engine is the state of a limiter, and everything that changes it: one deterministic
// machine. Each verb gets its moment as a parameter; the same verbs at the same moments lead to the
// same state. It has no clock, lock, goroutine, timer, context and no table of time zones.
package engine

import (
	"math/rand/v2"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// DefaultMaxModels is how many models without a quota of their own have usage, where nothing else
// was said.
const DefaultMaxModels = 10_000

// Engine is the state of a limiter. Its methods need the lock of whoever owns it: those that only
// read (Find, Judge) may run beside each other.
type Engine struct {
	Catalog *catalog.Catalog
	// Rename returns the name under which a model is counted that a caller asks for. It is nil
	// where that does not depend on quotas.
	Rename func(asked string) string

	accounts map[string]*account.Account
	blanks   blanks
	places   places
	other    *account.Account // whose spend is that of the models for which there is no room
	zones    map[string]*account.Zone
	classes  map[string]state.Class
	reserves []account.Reserve
	withheld []account.Reserve // for processes
	lines    *lines.Lines
	open     calls
	holds    holds
	observer Observer

	last  account.Now // the moment of the last verb
	span  int64       // the longest that a charge of the minute counted for any caller
	items []verdict.Item
	asked []Request       // of the command that is applied
	free  []*account.Call // ended calls, to be used again

	serial int64  // of the last call
	seed   uint64 // of what is random in searches

	waiters map[account.ID]*lines.Waiter // of those that commands have entered
	told    told                         // the calls that facts have told
}

// DrawSeed returns a seed for New. Tests that compare limiters have each of them draw the same.
var DrawSeed = rand.Uint64

// New returns an engine without quotas. seed is that of what is random in the searches for limits:
// two processes with an account of their own each should have two. observer may be nil.
func New(seed uint64, observer Observer) *Engine {
	if observer == nil {
		observer = nobody{}
	}
	e := &Engine{
		Catalog:  new(catalog.Catalog),
		accounts: make(map[string]*account.Account),
		places:   places{most: DefaultMaxModels},
		other:    account.New(state.OtherAccount),
		zones:    map[string]*account.Zone{"": {}},
		observer: observer,
		seed:     seed,
		span:     account.Minute,
	}
	e.other.NeedSpend(e.zones[""])
	e.lines = lines.New(host{e})
	e.lines.SetSpan(e.span)
	return e
}

// Observer is told of facts: of what happens by itself, and of what a verb brings about beside its
// outcome. It must not call the engine.
type Observer interface {
	// Shown and Hidden tell that an account has usage, and that it has none any more.
	Shown(a *account.Account)
	Hidden(a *account.Account, evicted bool)
	// Requoted tells that the quota of a name is another one, or none.
	Requoted(c catalog.Change)
	// Cooled tells of a cooldown that began.
	Cooled(a *account.Account, asked string)
	// Asked tells what a command asks for, before anything of that is charged.
	Asked(reqs []Request, now account.Now)
	// Ended tells that a call ended by itself.
	Ended(c *account.Call, how account.How, now account.Now)
}

// begin is the prelude of all verbs: time does not go back, and what is due by itself happens
// first.
func (e *Engine) begin(now account.Now, span int64) account.Now {
	now.Instant = max(now.Instant, e.last.Instant)
	if e.last = now; span > e.span {
		e.widen(span)
	}
	if e.Due() <= now.Instant {
		e.happen(now)
	}
	return now
}

// Keep has charges of the minute count for at least a span, before a caller with that has come:
// what a file has of them must not be dropped before.
func (e *Engine) Keep(span int64) {
	if span > e.span {
		e.widen(span)
	}
}

// widen has charges of the minute count for longer. Those that counted for nobody any more stay
// uncounted, because some accounts have dropped them.
func (e *Engine) widen(span int64) {
	e.prune()
	e.span = span
	e.lines.SetSpan(span)
}

// prune drops all that has expired by the last moment, which decides nothing.
func (e *Engine) prune() {
	cut := e.last.Instant - e.span
	for _, a := range e.accounts {
		a.Prune(cut)
		a.ForgetAsks(cut)
	}
	e.told.forget(cut - e.span)
}

// Due returns the instant at which Advance is to be called at the latest; account.Never for none.
func (e *Engine) Due() int64 {
	if len(e.holds)|e.lines.Waiting() != 0 { // each call asks, so this much is inlined
		return e.nextDue()
	}
	return account.Never
}

//go:noinline
func (e *Engine) nextDue() int64 { return min(e.lines.Due(), e.holds.due()) }

// Advance lets happen what is due by itself: reservations that nobody has settled expire, and those
// that wait are served.
func (e *Engine) Advance(now account.Now) { e.begin(now, 0) }

func (e *Engine) happen(now account.Now) {
	for c := e.holds.take(now.Instant); c != nil; c = e.holds.take(now.Instant) {
		e.end(c, &account.Ending{How: account.Expired, Now: now, Span: e.span})
		e.observer.Ended(c, account.Expired, now) // whoever made the call may still hold it, so it is not used again
	}
	e.lines.Advance(now)
	e.lines.Serve(now)
}

// Done returns the waiters that were served or refused since it was called last.
func (e *Engine) Done() []*lines.Waiter { return e.lines.TakeDone() }

// Last returns the moment of the last verb.
func (e *Engine) Last() account.Now { return e.last }

// nobody observes nothing.
type nobody struct{}

func (nobody) Shown(*account.Account)                        {}
func (nobody) Hidden(*account.Account, bool)                 {}
func (nobody) Requoted(catalog.Change)                       {}
func (nobody) Cooled(*account.Account, string)               {}
func (nobody) Asked([]Request, account.Now)                  {}
func (nobody) Ended(*account.Call, account.How, account.Now) {}
