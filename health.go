package ratelimit

import (
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/tally"
)

// Health is how a limiter is: see [RateLimiter.Health].
type Health struct {
	// Err is why the shared database or the store cannot be used, as [RateLimiter.Err] returns it;
	// nil while it can, and for a limiter without one. A readiness probe may fail by it. With
	// Config.FailClosed it should, because everything is denied then; without it the process goes
	// on with what it knows.
	Err error
	// Warnings are what a person should look at: a *DenialsError, an *EstimateError or a
	// *StaleProfileError for each model that has one, in this order and then in that of the names.
	// Each says what to do. There are at most 100; the last of more says how many are left out.
	//
	// Show them and alert on them, but never take a process out of service for one. They are about
	// quotas and callers, which are the same in the process that takes its place.
	Warnings []error
}

// DenialsError is a warning of [RateLimiter.Health]: of at least 100 calls of a model in the last
// minute, 95 % or more were refused. With Config.Shared and Config.Store the calls are those of
// this limiter.
type DenialsError struct {
	Model   string       // as it is counted
	Refused int          // calls
	Calls   int          // refused and admitted
	Code    DecisionCode // of the last refusal
	Reason  string       // the same in words
}

// Error names the model, the share and the last reason, and says what to do.
func (e *DenialsError) Error() string {
	return fmt.Sprintf("%d of %d calls of %q in the last minute were refused, the last because %s: %s",
		e.Refused, e.Calls, e.Model, e.Reason, e.advice())
}

func (e *DenialsError) advice() string {
	switch e.Code {
	case DecisionCooldown:
		return "the provider asked for a pause; wait until it ends, and see Explain for its cause"
	case DecisionInFlightLimit:
		return "settle each reservation; Explain tells how old the oldest is"
	case DecisionQueued:
		return "wait in line, too, with Acquire; Explain tells what the first in line asks for"
	case DecisionRPDLimit, DecisionTPDLimit:
		return "send to another model, or ask the provider for a larger quota"
	case DecisionSpendLimit:
		return "send to a cheaper model, or raise the limit of spend; Audit tells what the calls cost"
	case DecisionUnpriced:
		return "give the model a price by SetPrice, or see Config.Unpriced"
	case DecisionTooManyModels:
		return "raise Config.MaxModels, or give the models quotas of their own"
	case DecisionInvalidTokens, DecisionInvalidQuota, DecisionUnknownModel:
		return "correct the program or its configuration"
	case DecisionStoreError:
		return "see Health.Err"
	}
	return "wait for Decision.RetryAfter or with Acquire, send less, or set a larger quota if the account has one"
}

// EstimateError is a warning of [RateLimiter.Health]: the last calls of a model, 32 at least, used
// less than a quarter or more than twice of the tokens that they estimated. Estimates that are too
// large keep others waiting, and with ones that are too small the provider refuses calls.
type EstimateError struct {
	Model     string // as it is counted
	Calls     int    // that were settled; calls of long ago count less, so this is not all of them
	Estimated int    // tokens of these calls
	Used      int
}

// Error names the model and the factor, and says what to do.
func (e *EstimateError) Error() string {
	if e.Estimated <= 0 {
		return fmt.Sprintf("calls of %q estimate no tokens, and use %d: estimate them, for example by RateLimiter.Estimate", e.Model, e.Used)
	}
	factor := tally.Times(float64(e.Used) / float64(e.Estimated))
	if e.Used < e.Estimated {
		return fmt.Sprintf("calls of %q use %s times the tokens that they estimate, and the rest keeps others waiting: "+
			"estimate less, for example by RateLimiter.Estimate", e.Model, factor)
	}
	return fmt.Sprintf("calls of %q use %s times the tokens that they estimate, so the provider may refuse some: "+
		"estimate more, for example by RateLimiter.Estimate", e.Model, factor)
}

// Health returns whether the limiter can use its store, and what a person should look at. It looks
// at all models, for about a millisecond at a time with the lock: call it from a probe or a page,
// not for each request. It is safe for concurrent use.
func (rl *RateLimiter) Health() Health {
	h := Health{Err: rl.Err()}
	var w tally.Warnings
	rl.mu.Lock()
	rl.readyLocked()
	rl.warnTalliesLocked(&w)
	if rl.loaded.HasQuotas() {
		rl.warnStaleLocked(&w)
	}
	rl.mu.Unlock()
	h.Warnings = w.Errors()
	return h
}

// Err returns the error that keeps the limiter from using the shared database or the store; nil
// while it can use it, and without Config.Shared and Config.Store. It is safe for concurrent use.
func (rl *RateLimiter) Err() error {
	if rl.shared == nil {
		return nil
	}
	return rl.shared.err()
}

// warnTalliesLocked warns of refusals and estimates. It lets others in now and then.
func (rl *RateLimiter) warnTalliesLocked(w *tally.Warnings) {
	work := chores.NewWorker(&rl.mu, &rl.clock)
	for name, e := range rl.ledger.Estimates {
		if e.Off() && name != tally.Other {
			w.Add(warnEstimate, name, &EstimateError{name, int(e.Calls), int(e.Estimated), int(e.Used)})
		}
		work.Next()
	}
	for name, r := range rl.refusals.All() {
		rl.warnDenialsLocked(w, name, r, rl.nowAtLocked(work.Instant).Instant)
		work.Next()
	}
}

// warnDenialsLocked warns if most calls of the last minute were refused.
func (rl *RateLimiter) warnDenialsLocked(w *tally.Warnings, name string, r *refusals, instant int64) {
	const least, share = 100, 95
	refused := r.Last(instant).Refused
	all := refused
	if a := rl.engine.Account(name); rl.shared != nil {
		all += r.Last(instant).Admitted
	} else if a != nil {
		all += a.Requests(instant - rl.span())
	}
	if all < least || refused*100 < all*share {
		return
	}
	w.Add(warnDenials, name, &DenialsError{name, refused, all, r.last.Code, r.last.Reason})
}

// warnStaleLocked warns of old quotas of profiles, by which models are limited that have usage. It
// lets others in now and then.
func (rl *RateLimiter) warnStaleLocked(w *tally.Warnings) {
	work := chores.NewWorker(&rl.mu, &rl.clock)
	for name, stats := range rl.State {
		if stats != nil && rl.State[name] == stats && (len(stats.Requests) > 0 || stats.DayCount > 0) {
			q, ok := rl.loaded.Given(name, rl.engine.Catalog)
			if ok && q.IsOld(rl.clock.At(work.Instant)) {
				w.Add(warnStale, name, staleProfile(&q, name))
			}
		}
		work.Next()
	}
}

// The kinds of warnings, the most urgent first.
const (
	warnDenials = iota
	warnEstimate
	warnStale
)
