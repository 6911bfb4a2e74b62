package ratelimit

import (
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Health is how a limiter is: see [RateLimiter.Health].
type Health struct {
	// Err is why the shared database or the store cannot be used, as [RateLimiter.Err] returns it;
	// nil while it can, and for a limiter without one. A readiness probe may fail by it. With
	// Config.FailClosed it should, because everything is denied then; else the process goes on.
	Err error
	// Warnings are what a person should look at: a *DenialsError, an *EstimateError or a
	// *StaleProfileError for each model that has one, in this order and then in that of the names.
	// Each says what to do. There are at most 100; the last of more says how many are left out.
	// Show them and alert on them, but never take a process out of service for one. They are about
	// quotas and callers, which are the same in the process that takes its place.
	Warnings []error
}

// DenialsError is a warning of [RateLimiter.Health]: of at least 100 calls of a model in the last
// minute, 95 % or more were refused. Only this limiter's calls count.
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
		e.Refused, e.Calls, e.Model, e.Reason, verdict.Advice(string(e.Code)))
}

// EstimateError is a warning of [RateLimiter.Health]: the last calls of a model, 32 at least, used
// less than a quarter or more than twice of the tokens that they estimated. Estimates that are too
// large keep others waiting, and with ones that are too small the provider refuses calls. With
// Config.Shared and Config.Store the calls are those of this limiter.
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
	effect, less := "so the provider may refuse some", "more"
	if e.Used < e.Estimated {
		effect, less = "and the rest keeps others waiting", "less"
	}
	return fmt.Sprintf("calls of %q use %s times the tokens that they estimate, %s: estimate %s, for example by RateLimiter.Estimate",
		e.Model, tally.Times(float64(e.Used)/float64(e.Estimated)), effect, less)
}

// Health returns whether the limiter can use its store, and what a person should look at. It looks
// at all models, with the lock for about a millisecond at a time: call it from a probe or a page.
func (rl *RateLimiter) Health() Health {
	is := checkup{rl: rl}
	err := rl.Err()
	rl.mu.Lock()
	rl.readyLocked()
	is.work = chores.NewWorker(&rl.mu, &rl.clock)
	is.estimatesLocked()
	is.refusalsLocked()
	if rl.loaded.HasQuotas() {
		is.profilesLocked()
	}
	rl.mu.Unlock()
	return Health{Err: err, Warnings: is.warnings.Errors()}
}

// Err returns the error that keeps the limiter from using the shared database or the store; nil
// while it can use it, and without Config.Shared and Config.Store.
func (rl *RateLimiter) Err() error {
	if rl.shared == nil {
		return nil
	}
	return rl.shared.err()
}

// checkup is a Health under way. It lets others in now and then.
type checkup struct {
	rl       *RateLimiter
	work     chores.Worker
	warnings tally.Warnings
}

// estimatesLocked warns of estimates that are far off.
func (c *checkup) estimatesLocked() {
	for name, e := range c.rl.ledger.Estimates {
		if e.Off() && name != tally.Other {
			c.warnings.Add(warnEstimate, name, &EstimateError{name, int(e.Calls), int(e.Estimated), int(e.Used)})
		}
		c.work.Next()
	}
}

// refusalsLocked warns if most calls of the last minute were refused.
func (c *checkup) refusalsLocked() {
	const least, share = 100, 95
	rl := c.rl
	for name, r := range rl.refusals.All() {
		instant := rl.nowAtLocked(c.work.Instant).Instant
		refused := r.Last(instant).Refused
		all := refused
		if a := rl.engine.Account(name); rl.shared != nil {
			all += r.Last(instant).Admitted
		} else if a != nil {
			all += a.Requests(instant - rl.span())
		}
		if all >= least && refused*100 >= all*share {
			c.warnings.Add(warnDenials, name, &DenialsError{name, refused, all, r.last.Code, r.last.Reason})
		}
		c.work.Next()
	}
}

// profilesLocked warns of old quotas of profiles, by which models are limited that have usage.
func (c *checkup) profilesLocked() {
	rl := c.rl
	for name, stats := range rl.State {
		if stats != nil && rl.State[name] == stats && (len(stats.Requests) > 0 || stats.DayCount > 0) {
			q, ok := rl.loaded.Given(name, rl.engine.Catalog)
			if ok && q.IsOld(rl.clock.At(c.work.Instant)) {
				c.warnings.Add(warnStale, name, staleProfile(&q, name))
			}
		}
		c.work.Next()
	}
}

// The kinds of warnings, the most urgent first.
const (
	warnDenials = iota
	warnEstimate
	warnStale
)

// refusals is the calls of a model that this limiter refused.
type refusals struct {
	tally.Minute
	last Refused // without At
	at   int64   // the instant of the last
}

// refusalTable has the refusals of each model.
type refusalTable struct{ tally.Table[refusals] }

// use returns the refusals of a model, which gets no entry in State by it; nil where there is no
// place for them. Models with a quota have one.
func (t *refusalTable) use(counted string, quotas map[string]ModelQuota) *refusals {
	return t.Use(counted, len(quotas), func(name string) bool { _, own := quotas[name]; return own })
}

// refused notes that a call was refused.
func (r *refusals) refused(now account.Now, d *Decision) {
	if r != nil {
		r.At(now.Instant).Refused++
		r.at = now.Instant
		r.last.Code, r.last.Reason, r.last.Pool, r.last.RetryAfter = d.Code, d.Reason, d.Pool, d.RetryAfter
	}
}

// admitted notes that a call was admitted, where others admit such calls, too.
func (r *refusals) admitted(now account.Now) {
	if r != nil {
		r.At(now.Instant).Admitted++
	}
}

// told returns the last refusal; nil for none.
func (r *refusals) told(now account.Now) *Refused {
	if r == nil || r.last.Code == "" {
		return nil
	}
	last := r.last
	last.At = now.TimeAt(r.at)
	return &last
}
