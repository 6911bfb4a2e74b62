package ratelimit

import (
	"context"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/external"
	"dappco.re/go/core/go-ratelimit/internal/observation"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// ProviderLimit is a provider's report of one limit of a model. The zero value reports nothing.
type ProviderLimit struct {
	// Limit is the maximum; zero or less, or more than 1<<40, reports nothing.
	Limit int
	// Remaining is the remaining amount, if HasRemaining; a negative number reports nothing.
	Remaining    int
	HasRemaining bool
	// Reset is the time until the whole limit is available again; zero or less is unknown.
	Reset time.Duration
	// Rounding is the unit to which Remaining was rounded, such as 1000; zero or less is none.
	Rounding int
}

// ProviderLimits is a provider's report of the limits of a model, see [RateLimiter.Observe]. The
// zero value reports nothing.
type ProviderLimits struct {
	RPM, TPM, ITPM, OTPM ProviderLimit // of the minute
	RPD, TPD             ProviderLimit // of the day

	// SentAt is the time at which the answered call was sent; zero, or a time in the future, is
	// now.
	SentAt time.Time
	// Counted is what [RateLimiter.Stats] returned just after the call was charged. An answer may
	// report what was left when its call came, which is long ago for a slow answer. Zero is
	// unknown; the limits in it do not matter.
	Counted ModelStats
	// UncountedRequests and Uncounted are the charges of calls that were on their way, so that
	// the provider may not have counted them yet when it answered. A negative number is zero;
	// more than was charged is the charge.
	UncountedRequests int
	Uncounted         Usage
	// Refused reports that the provider refused the call, and the limits come from the headers or
	// the body of that refusal. The EventQuotaChanged of a quota that they correct then says
	// "refusal" instead of "header".
	Refused bool
}

// reports returns the reports by dimension.
func (l *ProviderLimits) reports() observation.Limits {
	return observation.Limits{
		state.RPM: observation.Limit(l.RPM), state.ITPM: observation.Limit(l.ITPM),
		state.TPM: observation.Limit(l.TPM), state.OTPM: observation.Limit(l.OTPM),
		state.RPD: observation.Limit(l.RPD), state.TPD: observation.Limit(l.TPD),
	}
}

// uncounted returns the part of a dimension that the provider may not have counted yet.
func (l *ProviderLimits) uncounted(d state.Dimension) int {
	a := cost{Requests: max(l.UncountedRequests, 0), Count: tokens.Count{Input: max(l.Uncounted.PromptTokens, 0), Output: max(l.Uncounted.OutputTokens, 0)}}
	return a.Of(d)
}

// Observe takes over a provider's report of the limits of a model, from the headers of an answer
// or from elsewhere.
//
// Remaining only ever tightens. If less is left than was counted here, other programs use the
// same limit. The difference is external usage, which decisions count beside the charges.
//
//   - That of a minute lasts until Reset, at most a minute (with Config.Margin); that of a day
//     until the model's day ends or Reset, at most 24 hours.
//   - Remaining is compared with the present charges less Uncounted, or with Counted if that is
//     more. Half of Rounding is added to Remaining.
//   - Of two answers, the one whose call was sent later counts, and the other can only add to it.
//     Calls that were sent within 250 ms of each other count as sent together.
//   - External usage is in [ModelStats] as External, not saved, not shared, and gone after Reset
//     and Load. It never makes a request one that never passes. Without a limit there is none.
//
// Limit corrects the quota of the model, only with Config.LearnQuotas.
//
//   - The quota of a profile or a file goes up and down. A quota that the program set, and the
//     account's limits, are never exceeded, and can come back. An unlimited dimension gets a limit.
//   - A model that only "*" or a pattern covers gets a copy of that with the corrections. A model
//     without any quota gets one made of the report. Both last until such a quota that covers the
//     model is set, and need room under Config.MaxModels.
//   - SetQuota, RemoveQuota and AddProvider start afresh, and so does ForgetLearned.
//   - Corrections are written to the state file, except those of copies of "*", and bind as long
//     as Config.LearnQuotas is on. With Config.Shared
//     they belong to this process and are lost where it has to read the whole database again, and
//     the quotas there count as set by the program.
//
// Waiters are served at once if there is more room. Impossible numbers (negative, too large) are
// ignored. MatchVersions and Aliases apply. Observe is safe for concurrent use, and cheap where
// it changes nothing: call it for every answer.
func (rl *RateLimiter) Observe(model string, limits ProviderLimits) {
	if rl.teller != nil && rl.learns {
		defer rl.teller.begun().flush()
	}
	if rl.ledger != nil {
		rl.observeShared(model, limits)
		return
	}
	rl.mu.Lock()
	rl.observeLocked(model, &limits)
	rl.mu.Unlock()
}

// observeShared is Observe with Config.Shared. Most of it concerns this process alone, and takes
// no transaction. It is apart because limits then are allocated.
func (rl *RateLimiter) observeShared(model string, limits ProviderLimits) {
	if rl.ledger.closed.Load() {
		return
	}
	rl.ledger.fresh() // charges of other processes are not external usage
	rl.mu.Lock()
	serves := rl.observationServesLocked(model, &limits)
	if !serves {
		rl.observeLocked(model, &limits)
	}
	rl.mu.Unlock()
	if serves {
		rl.ledger.update(combine.AppendedApart, func(p *plan) { p.then(func() { rl.observeLocked(model, &limits) }) })
	}
}

// observationServesLocked reports whether an observation may serve waiters, which with a
// shared store is a change that the other processes learn of.
func (rl *RateLimiter) observationServesLocked(model string, limits *ProviderLimits) bool {
	if rl.pools.count > 0 {
		var reports []poolReport
		reports, limits = rl.poolReportsLocked(model, limits)
		for i := range reports {
			r := &reports[i]
			if rl.observationServesCountedRLocked(r.pool.counted, r.pool.quota, &r.limits) {
				return true
			}
		}
	}
	var q ModelQuota
	name, _ := rl.findRLocked(model, &q)
	return rl.observationServesCountedRLocked(name, q, limits)
}

// observationServesCountedRLocked is observationServesLocked for what is counted under a name.
func (rl *RateLimiter) observationServesCountedRLocked(name string, q ModelQuota, limits *ProviderLimits) bool {
	switch {
	case rl.lines.allSlots[name].waiting() > 0:
		return true
	case !rl.learns:
		return false
	case rl.isToldNewsRLocked(name, &q, limits):
		return true
	}
	_, corrects := rl.lessonRLocked(name, q, limits)
	return corrects
}

// observeLocked is Observe.
func (rl *RateLimiter) observeLocked(model string, limits *ProviderLimits) {
	var reports []poolReport
	if rl.pools.count > 0 {
		reports, limits = rl.poolReportsLocked(model, limits)
	}
	var q ModelQuota
	name, known := rl.findRLocked(model, &q)
	rl.observeCountedLocked(name, q, known, limits)
	for i := range reports {
		r := &reports[i]
		rl.observeCountedLocked(r.pool.counted, r.pool.quota, r.pool.hasQuota, &r.limits)
	}
}

// observeCountedLocked is observeLocked for what is counted under a name. What is left is noted
// before the quota changes: that serves waiters, and no more of them may go than are left.
func (rl *RateLimiter) observeCountedLocked(name string, q ModelQuota, known bool, limits *ProviderLimits) {
	was, wasKnown, corrects, told := q, known, false, false
	if rl.learns {
		if told = rl.isToldNewsRLocked(name, &q, limits); told {
			rl.foundLocked(name, &q, rl.clock.Sync(), true).Tell(true)
			rl.changedNowLocked()
		}
		if next, is := rl.lessonRLocked(name, q, limits); is {
			q, known, corrects = next, true, true
		}
	}
	eased, tightened := false, false
	if known && !q.unlimited() {
		eased, tightened = rl.noteExternalLocked(name, &q, limits)
	}
	if corrects {
		by := byHeader
		if limits.Refused {
			by = byRefusal
		}
		rl.learnLocked(name, by, q, was, wasKnown)
	}
	g := rl.lines.allSlots[name]
	if g.waiting() == 0 {
		return
	}
	if tightened || told {
		rl.linesLocked().reviewAllLaterLocked(g)
	}
	if eased || tightened || told {
		rl.linesLocked().serveLocked(g)
	}
}

// noteExternalLocked notes the external usage, and reports whether that makes room, and whether
// it takes some.
func (rl *RateLimiter) noteExternalLocked(name string, q *ModelQuota, limits *ProviderLimits) (eased, tightened bool) {
	instant := rl.clock.Sync()
	wall := rl.clock.UnixNano(instant)
	u := rl.external.Of(name, instant, wall)
	reports, atCall := limits.reports(), limits.Counted.used()
	var w *window
	for of := range state.InFlight {
		report, limit := &reports[of], *q.limit(of)
		if limit <= 0 || !report.SaysRemaining() {
			continue
		}
		if w == nil {
			w = rl.usedLocked(name, q, instant)
		}
		amount := report.External(limit, observation.Counts{
			Now: w.usedOf(of), Uncounted: limits.uncounted(of), AtCall: atCall[of],
		})
		if u == nil {
			if amount == 0 {
				continue
			}
			// Models with a quota of their own always have a place.
			if _, own := rl.Quotas[name]; !own && !state.IsPool(name) && !rl.external.HasRoom(rl.mostModels(), instant, wall) {
				return false, false
			}
			u = rl.external.Add(name)
		}
		sooner, later := u[of].Take(external.Part{
			Amount: amount, Until: rl.externalUntil(of, w, q, report, instant), SentAt: limits.sentAt(&rl.clock, instant),
		})
		eased, tightened = eased || sooner, tightened || later
	}
	rl.external.Of(name, instant, wall) // drops it where nothing is left of it
	return eased, tightened
}

// usedLocked returns the window of a model in order; an empty one where it has no state.
func (rl *RateLimiter) usedLocked(name string, q *ModelQuota, instant int64) *window {
	stats := rl.statsRLocked(name)
	if stats == nil {
		return unused
	}
	rl.rezoneLocked(stats, q.DayZone, instant)
	return rl.windowLocked(name, stats, instant)
}

// sentAt returns when the call was sent that was answered, as an instant.
func (l *ProviderLimits) sentAt(c *clock.Clock, instant int64) int64 {
	if l.SentAt.IsZero() {
		return instant
	}
	return instant - max(int64(c.At(instant).Sub(c.Own(l.SentAt))), 0)
}

// externalUntil returns until when something is held back that is observed now.
func (rl *RateLimiter) externalUntil(of state.Dimension, w *window, q *ModelQuota, report *observation.Limit, instant int64) int64 {
	if state.Limits[of].Window != state.Day {
		return instant + report.Lasts(rl.span())
	}
	period := w.period
	if w.dayCount() == 0 && w.dayTokens() == 0 { // it begins with the next call, or at midnight
		period.SetZone(q.DayZone)
		period.StartAt(rl.clock.At(instant))
	}
	return min(rl.clock.UnixNano(instant)+report.Lasts(day), period.End)
}

// ProviderRefusal is a refusal by the provider of a call that was sent: see
// [RateLimiter.ObserveRefusal].
type ProviderRefusal struct {
	// Model is the model of the call, as in Reserve.
	Model string
	// Status is the HTTP status of the refusal; zero where it is not known.
	Status int
	// Problem is "rate_limited" for a limit that refills soon, "daily_quota" for a used-up quota of
	// the day, "exhausted" for used-up money or a used-up plan, and "overloaded" for an overloaded
	// provider. "timeout" is for a call without an answer: it was not refused, so Config.Events is
	// not told. Anything else counts as "other".
	Problem string
	// RetryAfter is the time that the provider asks to wait; zero or less for none.
	RetryAfter time.Duration
	// SentAt is the time at which the call was sent: a call that was sent before a limit was last
	// lowered does not lower it again. Zero, or a time in the future, is not known.
	SentAt time.Time
}

// ObserveRefusal reports a provider's refusal to Config.Events, as EventProviderRefused, with ctx
// and the ID that it carries. A refusal by a limit that refills lowers the rate that was found for
// the model, and overload or a timeout the calls in flight, where its quota searches for them: see
// ModelQuota.AdaptiveFloorRPM. Apart from that it changes no quota, and it begins no cooldown: see
// Observe and CooldownFor. Call it once for each refusal. An llmhttp.Transport does so.
//
// MatchVersions and Aliases apply. It is safe for concurrent use.
func (rl *RateLimiter) ObserveRefusal(ctx context.Context, r ProviderRefusal) {
	if !slices.Contains(problems, r.Problem) && r.Problem != timeoutProblem {
		r.Problem = otherProblem
	}
	r.RetryAfter = max(r.RetryAfter, 0)
	if r.Problem != timeoutProblem {
		by := callerOf(ctx)
		rl.teller.refusedByProvider(&by, &r)
	}
	rl.findByRefusal(&r)
}

// problems are the values of ProviderRefusal.Problem.
var problems = []string{string(CauseRateLimited), string(CauseDailyQuota), string(CauseOverloaded), "exhausted"}

const otherProblem = "other"
