// Package ratelimit keeps a program's calls to large language models inside the
// provider's quotas, for each model apart: requests, input, output and all tokens
// per minute, requests and tokens per day, and calls at once.
//
// Wait for room, call, and say what was used:
//
//	rl, err := ratelimit.New()
//	…
//	reservation, err := rl.Acquire(ctx, "gemini-2.5-pro", 1500, 800)
//	…
//	reply, err := call(…)
//	reservation.Commit(reply.PromptTokens, reply.OutputTokens)
//
// [RateLimiter.Acquire] waits its turn among all goroutines that share the
// limiter. [RateLimiter.Reserve] does not wait, and [RateLimiter.Do] does all
// three steps.
//
// Where one goroutine does everything, it may as well ask before a call and tell
// after it, with [RateLimiter.CanSend] and [RateLimiter.RecordUsage].
// [RateLimiter.Decide] answers like CanSend and says why, and how long to wait;
// [RateLimiter.WaitForCapacity] waits that long.
//
// # How it counts
//
// A charge counts for one minute from the moment it was made: an exact sliding
// window, not a bucket and not a calendar minute. ModelQuota.Burst adds a bucket that
// spreads the calls inside the minute. The day is 24 hours from its first request,
// or ends at midnight of ModelQuota.DayZone. A limit of zero is unlimited, and a
// model without a quota is always allowed.
//
// # How it remembers
//
// With Config.AutoPersist the limiter keeps quotas and usage in a file, so that
// a restart does not forget what was used: YAML by default, SQLite with
// [NewWithSQLiteConfig]. A program may also say when, with [RateLimiter.Persist]
// and [RateLimiter.Load].
//
// With Config.Shared one SQLite file is one quota of all processes on a machine: each
// call is a short transaction on it, and nothing that was admitted is forgotten when a
// process dies.
//
// # Concurrency
//
// All methods of [RateLimiter] are safe for concurrent use. A check with CanSend
// and the record after it are two steps, though: goroutines that check together
// pass together. Reserve and Acquire check and charge in one.
package ratelimit

import (
	"container/list"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// UsageStats is what a model has used: the charges of the last minute and the
// count of the day. The zero value is a model that was never used.
//
// The limiter keeps the slices sorted, oldest first, and replaces them as
// entries come and leave; a slice read from here is valid until the next call
// on the limiter. To keep it, or to put it into another entry, copy it.
type UsageStats struct {
	Requests []time.Time  `yaml:"requests"`  // when each request of the last minute was recorded
	Tokens   []TokenEntry `yaml:"tokens"`    // the tokens of each of them
	DayStart time.Time    `yaml:"day_start"` // when the current day began
	DayCount int          `yaml:"day_count"` // requests since DayStart

	DayTokens int `yaml:"day_tokens,omitempty"` // tokens since DayStart

	window *window // the same, indexed; nil until the limiter first looks
}

// TokenEntry is the tokens that one request used.
type TokenEntry struct {
	Time  time.Time `yaml:"time"`  // when the request was recorded
	Count int       `yaml:"count"` // prompt and output tokens together

	// Input is how many of Count are prompt tokens; the rest is output. It is
	// held between 0 and Count.
	Input int `yaml:"input,omitempty"`
}

// RateLimiter decides whether calls may be sent, from the quotas of the models
// and what was used of them. Make one with [New], [NewWithConfig],
// [NewWithSQLite] or [NewWithSQLiteConfig].
//
// Quotas and State are the limiter's truth, and a program may fill or replace
// them before it shares the limiter among goroutines; afterwards it must use
// the methods. With Config.AutoPersist the limiter has a goroutine of its own from the
// first method that changes something. With Config.Shared, State is a copy of what the
// database says, which must only be read, and Quotas are changed by SetQuota alone.
// The limiter takes entries in any order, nil entries, and times
// from the future (they count as of now). It notices another map, another
// entry, another slice, or another day at its next call, but not an element
// changed in place.
//
// A RateLimiter must not be copied. All its methods are safe for concurrent
// use.
type RateLimiter struct {
	mu     sync.RWMutex
	Quotas map[string]ModelQuota  // what each model may use
	State  map[string]*UsageStats // what each model has used

	cooldowns map[string]time.Time // nothing is admitted for a model until then
	held      map[string]*heldBack // what providers say that others use

	gates    map[string]*gate // who is at each model
	waiting  int              // places in all lines
	arrivals int              // how many ever had to wait

	aliases       map[string]string
	matchVersions bool
	maxQueue      int // waiters per model; 0 is no cap
	maxModels     int // models without a quota of their own that hold state
	guests        guests

	fresh     []Reservation // that were not handed out yet
	holdTTL   time.Duration
	holds     list.List // of hold, in the order of their admission
	holdTimer *time.Timer

	clock    clock
	margin   time.Duration
	tellAt   int64                 // from this instant on the saver is told of changes
	saver    *saver                // nil without Config.AutoPersist
	supplied map[string]ModelQuota // quotas that profiles and files supplied, not the program
	learned  map[string]learned    // quotas that were corrected, and others that keep to what was said
	learns   bool                  // Config.LearnQuotas
	closing  chan struct{}         // closed by Close; nil until somebody needs it
	closed   bool
	ledger   *ledger // with Config.Shared
	quotaEra int     // how often quotas changed
	era      int     // how often Reset or Load put another map into State
	saves    int     // how often Persist began to save the State,
	saved    int     // and the last time that it succeeded

	ioMu     sync.Mutex // one Persist, Load or Close at a time; taken before mu
	filePath string     // the YAML file; empty with SQLite
	suspect  bool       // the YAML file could not be loaded; guarded by ioMu
	sqlite   *sqliteStore
}

// span is how long a charge counts to the minute, in nanoseconds.
func (rl *RateLimiter) span() int64 { return minute + int64(rl.margin) }

// CanSend reports whether a request with the estimated number of tokens fits
// the quota of model now. It records nothing. An unknown model and one whose
// quota is all zero are always allowed, but in a cooldown; a negative estimate
// never is.
//
// The estimate counts as input: see DecideRequest for models that limit input
// and output apart. CanSend is safe for concurrent use.
func (rl *RateLimiter) CanSend(model string, estimatedTokens int) bool {
	if estimatedTokens < 0 {
		return false
	}
	if rl.ledger != nil {
		return rl.Decide(model, estimatedTokens).Allowed
	}
	rl.mu.RLock()
	name := model
	q, known := rl.Quotas[name] // findRLocked in line, which takes a twentieth less
	if !known || rl.aliases != nil {
		name, known = rl.resolveRLocked(model, &q)
	}
	if (!known || q.unlimited() && q.DayZone == "") && len(rl.cooldowns) == 0 && rl.waiting == 0 {
		rl.mu.RUnlock()
		return true
	}
	if known {
		if w, instant := rl.lookRLocked(name, &q); w != nil {
			a := cost{1, tokens.Count{Input: estimatedTokens}}
			allowed := w.admits(&q, w.gate, &a) && !w.badZone && w.gate.waiting() == 0 &&
				(q.Burst == 0 || w.admitsNow(&q, &a, instant))
			rl.mu.RUnlock()
			return allowed
		}
	}
	rl.mu.RUnlock()
	return rl.Decide(model, estimatedTokens).Allowed
}

// RecordUsage charges one request and its tokens to model, as of now. Negative
// token counts count as zero, and sums stop at the largest int. Models without
// a quota are recorded too, as many as Config.MaxModels allows.
//
// It is safe for concurrent use.
func (rl *RateLimiter) RecordUsage(model string, promptTokens, outputTokens int) {
	used := tokens.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}
	if rl.ledger != nil {
		rl.update(func() { rl.recordLocked(model, used) })
		return
	}
	rl.mu.Lock()
	rl.recordLocked(model, used)
	rl.mu.Unlock()
}

func (rl *RateLimiter) recordLocked(model string, used tokens.Count) {
	name := model
	if rl.aliases != nil || rl.matchVersions {
		name = rl.nameRLocked(model)
	}
	instant := rl.clock.sync()
	now := rl.clock.at(instant)
	if stats := rl.stateLocked(name, false, instant, now); stats != nil {
		w := rl.windowLocked(name, stats, instant)
		w.charge(instant, now, used, rl.span())
		rl.changedLocked(instant)
		if rl.ledger != nil {
			rl.ledger.noteLocked(&event{kind: eventUse, model: name, at: instant, requests: 1, Count: used.Clamp()}, w)
		}
	}
}

// stateLocked returns the state of a model, made where it has none; nil when
// there is no place for it and it need not be.
func (rl *RateLimiter) stateLocked(name string, must bool, instant int64, now time.Time) *UsageStats {
	if stats := rl.State[name]; stats != nil {
		return stats
	}
	return rl.newStateLocked(name, must, instant, now)
}

func (rl *RateLimiter) newStateLocked(name string, must bool, instant int64, now time.Time) *UsageStats {
	if !rl.makePlaceLocked(name, instant) && !must {
		return nil
	}
	stats := &UsageStats{DayStart: now.Round(0)}
	if rl.State == nil {
		rl.State = make(map[string]*UsageStats)
	}
	// The name may be a part of a longer string, which must not stay for it.
	rl.State[strings.Clone(name)] = stats
	return stats
}

// Reset forgets what model has used and what Observe holds back of it, and ends its
// cooldown; Reset("") does it for all models. Quotas stay, and so do the calls in flight. Whoever waits is served
// at once.
//
// It is safe for concurrent use.
func (rl *RateLimiter) Reset(model string) {
	rl.update(func() {
		name := model
		if model != "" {
			name = rl.nameRLocked(model)
		}
		rl.forgetUsageLocked(name)
		rl.changedNowLocked()
		if rl.ledger != nil {
			rl.ledger.noteNowLocked(&event{kind: eventReset, model: name}, nil)
		}
		rl.serveAllLocked()
	})
}

// forgetUsageLocked forgets the usage and the cooldown of a model; of all where the name
// is empty.
func (rl *RateLimiter) forgetUsageLocked(name string) {
	rl.guests.fullUntil = 0
	if name != "" {
		delete(rl.cooldowns, name)
		delete(rl.held, name)
		rl.forgetLocked(name)
		return
	}
	rl.State = make(map[string]*UsageStats)
	rl.cooldowns, rl.held = nil, nil
	rl.era++
	for _, g := range rl.gates {
		g.leftLocked()
	}
}

// Close ends the limiter's background work: BackgroundPrune stops, and whoever
// waits in WaitForCapacity, Acquire or AcquireAll gets ErrClosed. With
// Config.AutoPersist it writes what is not saved yet, and returns the error if
// that fails; without it, it saves nothing: call Persist first. With SQLite it then
// closes the database, and what could not be written is lost. Decisions and records
// go on in memory, unsaved, and with YAML so do Persist and Load.
//
// With Config.Shared, Close gives up what this limiter holds: its slots go to others,
// and what it charged stays charged. It tries once more to write what could not be
// written, and says so if it cannot. Afterwards decisions are denied with
// DecisionClosed, and records are forgotten.
//
// Close waits for a write that is under way; SQLite waits up to five seconds for the
// lock of another program, each time, and a shared database up to three. It may be called more than once. With YAML the
// next call writes what came since, and what the last one could not. It is safe for
// concurrent use, also from Config.OnError.
func (rl *RateLimiter) Close() error {
	rl.mu.Lock()
	if !rl.closed {
		rl.closed = true
		close(rl.closingLocked())
		if rl.ledger == nil {
			rl.serveAllLocked()
		}
	}
	rl.mu.Unlock()

	rl.saver.stop()
	rl.ioMu.Lock()
	defer rl.ioMu.Unlock()
	err := rl.saver.finish()
	if rl.ledger != nil {
		err = errors.Join(err, rl.ledger.close())
		rl.ledger.goroutines.Wait()
	}
	if rl.sqlite != nil {
		err = errors.Join(err, rl.sqlite.close())
	}
	if err != nil {
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
