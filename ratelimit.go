// Package ratelimit keeps a program's calls to large language models inside the provider's quotas,
// for each model: requests, input, output and all tokens per minute, requests and tokens per day,
// money, and concurrent calls. Under an SDK use it through package llmhttp, which does all of this.
//
// A [Config] says what holds, most of all a [ModelQuota] for each model, and makes a [RateLimiter].
// Acquire waits until the provider has room and charges an estimate. It returns a [Reservation],
// which Commit settles by what was used:
//
//	rl, err := ratelimit.NewWithConfig(ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
//		"claude-sonnet-4": {MaxRPM: 500, MaxTPM: 30_000},
//		"*":               {MaxRPM: 60}, // without "*", other models are not limited at all
//	}})
//	…
//	reservation, err := rl.Acquire(ctx, "claude-sonnet-4", 1500, 800) // prompt and output tokens
//	…
//	reservation.Commit(reply.PromptTokens, reply.OutputTokens)
//
// [RateLimiter.Do] takes these steps around a function. [RateLimiter.Reserve] never waits: the
// [Decision] of a denial says why, and for how long. A [Request] has all that a call may say of
// itself; [RateLimiter.AcquireAll] and [RateLimiter.AcquireAny] take several, for all or for the
// first that has room. One goroutine alone may use [RateLimiter.CanSend] or [RateLimiter.Decide]
// before a call, [RateLimiter.RecordUsage] after it, and [RateLimiter.WaitForCapacity] to wait.
//
// # How it counts
//
// A charge counts for a minute from its moment: a sliding window, not a calendar minute. A provider
// counts a call when it arrives, later than the limiter: set Config.Margin to the time between,
// which package llmhttp knows by itself. ModelQuota.Burst spreads calls inside the minute. A day is
// 24 hours from its first request, or ends at midnight of ModelQuota.DayZone.
//
// A [Pool] is a limit that several models share: a call is charged to its model and to all of its
// pools, or to none. With Config.Prices a quota can limit spend, and [RateLimiter.Audit] adds up
// what became of all calls. Waiters are served first come, first served, unless a [Class] and
// [WithClass] say otherwise; [WithFlow] has tenants take turns.
//
// # How it remembers
//
// With Config.AutoPersist the limiter keeps quotas and usage in a file, YAML by default, SQLite
// with [NewWithSQLiteConfig]. With Config.Shared all processes of a machine share one quota in a
// SQLite file, and with Config.Store, a [Store], many machines share one on a server: no admission
// is lost when a process dies. The build tag nosqlite leaves SQLite out.
//
// # What it tells
//
// [RateLimiter.Explain] says why a model waits, and [RateLimiter.Stats] what it has used. Each
// [Event] goes to Config.Events, such as [LogEvents]. Config.OnError gets what failed in the
// background, and [RateLimiter.Health] tells it.
//
// All methods of [RateLimiter] are safe for concurrent use. A check with CanSend and the record
// after it are two steps, though, where Reserve and Acquire check and charge in one.
package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

// UsageStats is a model's charges of the last minute and its count of the day; zero if unused.
//
// The limiter keeps the slices sorted, oldest first, and replaces them as entries come and leave; a
// slice read from here is valid until the next call on the limiter. Copy it to keep it.
type UsageStats struct {
	Requests []time.Time  `yaml:"requests"`  // the times of the last minute's requests
	Tokens   []TokenEntry `yaml:"tokens"`    // the tokens of each of them
	DayStart time.Time    `yaml:"day_start"` // when the current day began
	DayCount int          `yaml:"day_count"` // requests since DayStart

	DayTokens int `yaml:"day_tokens,omitempty"` // tokens since DayStart

	account *account.Account // that counts it; nil until the limiter first looks
}

// TokenEntry is the tokens of one request.
type TokenEntry struct {
	Time  time.Time `yaml:"time"`  // when the request was recorded
	Count int       `yaml:"count"` // prompt and output tokens together

	// Input is the prompt tokens in Count, clamped between 0 and that; the rest is output.
	Input int `yaml:"input,omitempty"`
}

// RateLimiter decides whether calls may be sent, from the quotas of the models and their usage.
// Make one with [New], [NewWithConfig], [NewWithSQLite] or [NewWithSQLiteConfig].
//
// Quotas and State are the limiter's truth. A program may fill or replace them before it shares
// the limiter among goroutines; afterwards it must use the methods. With Config.AutoPersist the
// limiter has a goroutine of its own from the first method that changes something. With
// Config.Shared or Config.Store, State and Quotas show what all processes share and must only be
// read; SetQuota changes a quota. The limiter accepts entries in any order, nil entries, and times
// from the future (they count as of now). Its next call notices another map, another entry, another
// slice, or another day, but not an element changed in place.
//
// A RateLimiter must not be copied. All its methods are safe for concurrent use.
type RateLimiter struct {
	// mu guards Quotas, State and the fields below it, up to those of another guard. Readers hold
	// it for reading, with the functions that end in RLocked.
	mu sync.RWMutex
	// Quotas are the limits of each model.
	Quotas map[string]ModelQuota
	// State is the usage of each model. CanSend, Decide and Stats add no entry: State[m] stays nil
	// until something is charged to m, and is nil again once m is pruned.
	State map[string]*UsageStats

	driver
	seen seen // the maps Quotas and State as the engine knows them

	loaded   profile.Loaded // the profiles of providers
	refusals refusalTable
	classed  atomic.Bool        // the engine has classes; for those who have no lock
	charged  [1]*account.Call   // room for the calls of one request
	unused   unusedReservations // that were not handed out yet
	ledger   tally.Ledger       // what Audit tells
	pricing  *catalog.Prices    // Config.Prices, SetPrice and the built-in ones; nil where no money is counted
	noPrices bool               // Config.NoPrices

	quotaVersion int    // how often quotas changed
	sayer        string // Event.By, while something is said of quotas
	stateVersion int    // how often Reset or Load put another map into State
	saves        int    // how often Persist began to save the State,
	saved        int    // and the last time that it succeeded

	saver *chores.Saver // of Config.AutoPersist; nil without it

	closing chan struct{} // closed by Close; nil until it is needed
	closed  bool

	// storage has a lock of its own, which is taken before mu.
	storage storage

	// These are set by the constructor and guard themselves, or never change.
	answers tally.Answers // what was learned of the models' answers; it guards itself
	naming  catalog.Names
	unknown UnknownPolicy       // Config.Unknown
	tiers   map[Provider]string // Config.Tiers

	unknownMet notice.UnknownModels
	uncounted  notice.UncountedPaths
	reporter   *notice.Reporter // of Config.OnError; nil without it
	teller     *teller          // of Config.Events; nil without it
	terms                       // by which it asks
	learns     bool             // Config.LearnQuotas
}

// background is the context of what no caller asks for.
var background = context.Background()

// CanSend reports whether a request with the estimated number of tokens fits the quota of model
// now. It records nothing. An unknown model and one whose quota is all zero are always allowed,
// except in a cooldown; a negative estimate is always denied. The estimate counts as input: see
// DecideRequest for models that limit input and output separately.
func (rl *RateLimiter) CanSend(model string, estimatedTokens int) bool {
	if estimatedTokens < 0 {
		return false
	}
	if rl.shared != nil { // its time is that of the store
		return rl.Decide(model, estimatedTokens).Allowed
	}
	rl.mu.RLock()
	if now, ok := rl.nowRLocked(); ok && !rl.engine.Catalog.HasPools() {
		a := rl.shownRLocked(rl.nameRLocked(model))
		if a != nil && a.Waiting == 0 && a.IsCurrent(now, rl.span()) {
			cost := state.Cost{Requests: 1, Count: state.Count{Input: estimatedTokens}}
			if admits, sure := verdict.Admits(a, &cost, now.Instant-rl.span(), now); sure {
				rl.mu.RUnlock()
				return admits
			}
		}
	}
	rl.mu.RUnlock()
	return rl.Decide(model, estimatedTokens).Allowed
}

// RecordUsage charges one request and its tokens to model, as of now. Negative counts are zero, and
// sums stop at the largest int. At most Config.MaxModels models without a quota are recorded.
func (rl *RateLimiter) RecordUsage(model string, promptTokens, outputTokens int) {
	rl.recordUsage(model, state.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, nil)
}

// RecordSpend is to RecordUsage what CommitUsage is to Commit.
func (rl *RateLimiter) RecordSpend(model string, promptTokens, outputTokens int, used money.Usage) {
	rl.recordUsage(model, state.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, &used)
}

// recordUsage is RecordUsage with what is billed of the usage; nil for the usage as it is.
func (rl *RateLimiter) recordUsage(model string, used state.Count, bill *money.Usage) {
	if rl.shared != nil {
		rl.shared.record(model, used, bill)
		return
	}
	rl.mu.Lock()
	var t engine.Target
	now := rl.enterForLocked(model, &t)
	rl.meetRLocked(&t)
	cost := rl.pricing.Cost(&rl.naming, t.Counted, t.Asked, used, bill, now.Wall)
	counted := rl.engine.Record(&t, rl.span(), used, cost, now)
	rl.ledger.Recorded(audited{rl}, t.Counted, counted, t.Pools, used, cost)
	rl.saver.ChangedAt(now.Instant)
	rl.leaveLocked(now)
	rl.mu.Unlock()
	rl.teller.recorded(model, used, cost)
}

// Reset forgets the usage of model, also the external usage that Observe found, and ends its
// cooldown; Reset("") does so for all models. Quotas, calls in flight, and what ObserveAnswer has
// learned stay. Waiters are served at once.
func (rl *RateLimiter) Reset(model string) {
	if rl.shared == nil {
		rl.adoptAll()
	}
	rl.change(func(now account.Now) (saves bool) {
		if model != "" {
			model = rl.nameRLocked(model)
			rl.refusals.Forget(model)
		} else {
			rl.refusals = refusalTable{}
			rl.stateVersion++
		}
		if rl.shared != nil {
			rl.shared.putLocked(engine.Reset{Counted: model})
			return false
		}
		rl.engine.Reset(model, now)
		rl.teller.pendLocked(rl.teller.thawedLocked())
		return true
	})
}

// Close ends the limiter's background work: BackgroundPrune stops, and waiters in
// WaitForCapacity, Acquire and AcquireAll get ErrClosed. With Config.AutoPersist it writes
// unsaved changes, and returns the error if that fails; without it, it saves nothing: call
// Persist first. With SQLite it then closes the database, and changes that could not be written
// are lost. Decisions and records go on in memory, unsaved, and with YAML so do Persist and Load.
//
// With Config.Shared and Config.Store, Close gives this limiter's slots to others; its charges
// stay. What it charged while the store was away, and has not written yet, is lost. Afterwards
// decisions are denied with DecisionClosed, and records are ignored. Config.Events is told that
// open reservations are released, and nothing after Close has returned. Close waits for a handler
// that is under way, for at most a second.
//
// Close waits for a write that is under way. SQLite waits up to five seconds for each lock of
// another program, and a shared database up to three. Close may be called more than once, also from
// Config.OnError. With YAML the next call writes what has not been written yet.
func (rl *RateLimiter) Close() error {
	rl.mu.Lock()
	if !rl.closed {
		rl.closed = true
		close(rl.closingLocked())
		rl.unused = unusedReservations{} // what a finalizer watches must not hold itself, and they hold the limiter
		if now := rl.nowLocked(); rl.shared == nil {
			rl.engine.Close(now)
			rl.leaveLocked(now)
		}
	}
	rl.mu.Unlock()

	defer rl.teller.close()
	rl.saver.Stop()
	rl.storage.mu.Lock()
	defer rl.storage.mu.Unlock()
	err := rl.saver.Finish(rl.storage.isClosed())
	rl.reporter.Stop()
	if rl.shared != nil {
		err = rl.shared.close()
	}
	if err = errors.Join(err, rl.storage.sqlite.close()); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// closingLocked returns the channel that Close closes.
func (rl *RateLimiter) closingLocked() chan struct{} {
	if rl.closing == nil {
		rl.closing = make(chan struct{})
	}
	return rl.closing
}
