package ratelimit

import (
	"context"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
)

// ProviderLimit is a provider's report of one limit of a model. The zero value reports nothing.
type ProviderLimit struct {
	Limit        int // the maximum; zero or less, or more than 1<<40, reports nothing
	Remaining    int // the remaining amount, if HasRemaining; a negative number reports nothing
	HasRemaining bool
	Reset        time.Duration // the time until the whole limit is available again; zero or less is unknown
	Rounding     int           // the unit to which Remaining was rounded, such as 1000; zero or less is none
}

// ProviderLimits is a provider's report of the limits of a model: see [RateLimiter.Observe].
type ProviderLimits struct {
	RPM, TPM, ITPM, OTPM ProviderLimit // of the minute
	RPD, TPD             ProviderLimit // of the day

	// SentAt is when the answered call was sent; zero, or a time in the future, is now.
	SentAt time.Time
	// Counted is what [RateLimiter.Stats] returned just after the call was charged, because an
	// answer may report what was left when its call came. Zero is unknown.
	Counted ModelStats
	// UncountedRequests and Uncounted are the charges of calls that the provider may not have
	// counted yet when it answered. A negative number is zero; more than was charged is the charge.
	UncountedRequests int
	Uncounted         Usage
	// Refused reports that the limits come from a refusal of the provider. The EventQuotaChanged of
	// a quota that they correct then says "refusal" instead of "header".
	Refused bool
}

// reports returns the reports by dimension.
func (l *ProviderLimits) reports() state.ReportedLimits {
	return state.ReportedLimits{
		state.RPM: state.ReportedLimit(l.RPM), state.ITPM: state.ReportedLimit(l.ITPM),
		state.TPM: state.ReportedLimit(l.TPM), state.OTPM: state.ReportedLimit(l.OTPM),
		state.RPD: state.ReportedLimit(l.RPD), state.TPD: state.ReportedLimit(l.TPD),
	}
}

// Observe takes over a provider's report of the limits of a model.
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
//   - External usage is in [ModelStats] as External, not saved, and gone after Reset and Load. It
//     never makes a request one that never passes. Without a limit there is none.
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
//     as Config.LearnQuotas is on.
//
// With Config.Shared and Config.Store external usage and corrections are those of all processes,
// and of the reports on a model only ten and then two a second count.
//
// Waiters are served at once if there is more room. Impossible numbers (negative, too large) are
// ignored. MatchVersions and Aliases apply. It is cheap: call it for every answer.
func (rl *RateLimiter) Observe(model string, limits ProviderLimits) {
	rl.change(func(account.Now) (saves bool) {
		now, t := rl.enterLocked(model)
		notCounted := state.Count{Input: max(limits.Uncounted.PromptTokens, 0), Output: max(limits.Uncounted.OutputTokens, 0)}
		report := engine.Report{
			Limits: limits.reports(), Counted: limits.Counted.used(), SentAt: now.Instant, Learns: rl.learns, Refused: limits.Refused,
			Uncounted: state.Cost{Requests: max(limits.UncountedRequests, 0), Count: notCounted},
		}
		if !limits.SentAt.IsZero() {
			report.SentAt -= max(rl.agoLocked(limits.SentAt, now), 0)
		}
		if rl.shared != nil {
			rl.shared.observeLocked(&t, &report, now)
			return false
		}
		if rl.sayer = byHeader; limits.Refused {
			rl.sayer = byRefusal
		}
		return rl.engine.Report(&t, &report, rl.span(), now)
	})
}

// ProviderRefusal is a provider's refusal of a call: see [RateLimiter.ObserveRefusal].
type ProviderRefusal struct {
	Model  string // the model of the call, as in Reserve
	Status int    // the HTTP status of the refusal; zero where it is not known
	// Problem is "rate_limited" for a limit that refills soon, "daily_quota" for a used-up quota of
	// the day, "exhausted" for used-up money or a used-up plan, and "overloaded" for an overloaded
	// provider. "timeout" is for no answer, of which Config.Events is not told. Else it is "other".
	Problem    string
	RetryAfter time.Duration // the time that the provider asks to wait; zero or less for none
	// SentAt is the time at which the call was sent: a call that was sent before a limit was last
	// lowered does not lower it again. Zero, or a time in the future, is not known.
	SentAt time.Time
}

// ObserveRefusal reports a provider's refusal to Config.Events, as EventProviderRefused, with ctx
// and the ID that it carries. A refusal by a limit that refills lowers the rate that was found for
// the model, and overload or a timeout the calls in flight, where its quota searches for them: see
// ModelQuota.AdaptiveFloorRPM. It begins no cooldown: see CooldownFor. Call it once for each
// refusal. An llmhttp.Transport does so. MatchVersions and Aliases apply.
func (rl *RateLimiter) ObserveRefusal(ctx context.Context, r ProviderRefusal) {
	switch r.Problem {
	case string(CauseRateLimited), string(CauseDailyQuota), string(CauseOverloaded), "exhausted", timeoutProblem:
	default:
		r.Problem = "other"
	}
	r.RetryAfter = max(r.RetryAfter, 0)
	if by := callerOf(ctx); r.Problem != timeoutProblem && rl.teller != nil {
		is := Event{Kind: EventProviderRefused, ID: by.id, Status: r.Status, Problem: r.Problem, RetryAfter: r.RetryAfter}
		rl.teller.tellOf(by.ctx, r.Model, is)
	}
	rl.findByRefusal(&r)
}

// findByRefusal has the search for the limits of a model and its pools go on after a refusal.
func (rl *RateLimiter) findByRefusal(r *ProviderRefusal) {
	var refusal account.ProviderRefusal
	switch r.Problem {
	case string(CauseRateLimited):
		refusal.Wait = int64(r.RetryAfter)
	case string(CauseOverloaded), timeoutProblem:
		refusal.Overload = true
	default:
		return
	}
	rl.change(func(account.Now) (saves bool) {
		now, t := rl.enterLocked(r.Model)
		if took := rl.agoLocked(r.SentAt, now); !r.SentAt.IsZero() && took >= 0 {
			refusal.Took = max(took, 1)
		}
		if rl.shared == nil {
			return rl.engine.Refuse(&t, refusal, now)
		}
		name := engine.Name{Asked: strings.Clone(r.Model), Counted: t.Counted}
		rl.shared.putLocked(engine.Refuse{Name: name, Refusal: refusal})
		return false
	})
}

// timeoutProblem is ProviderRefusal.Problem of a call without an answer.
const timeoutProblem = "timeout"

// Estimate is what the answers of a model have taught about its next call. A permille is a
// thousandth. The zero value says that nothing is known: see RateLimiter.Estimate.
type Estimate struct {
	Answers int `json:"answers"` // how many answers were seen
	// OutputTokens is the expected output: 5/4 of the largest of the last 32 to 64 answers.
	OutputTokens int `json:"output_tokens"`
	// PromptPermille is how many tokens a prompt has for a thousand that its caller estimates: the
	// mean of the first eight prompts, of which each later one replaces an eighth, and the mean
	// deviation from it. It is between 250 and 4000, or 0 before the first.
	PromptPermille int `json:"prompt_permille"`
	// ErrorP50 and ErrorP95 bound the error of the corrected estimates of the last 64 prompts, in
	// permille of the real prompt: half of them, and 19 of 20, were wrong by no more.
	ErrorP50 int `json:"error_p50_permille"`
	ErrorP95 int `json:"error_p95_permille"`
}

// Correct returns an estimate of a prompt after the correction by PromptPermille, rounded up.
// Before the first answer it returns the estimate as it is.
func (e Estimate) Correct(promptTokens int) int {
	return tally.Correct(promptTokens, e.PromptPermille)
}

// ObserveAnswer learns from an answer of model, for Estimate: from the caller's estimate, before
// Estimate.Correct, of which only PromptTokens counts, and from the real usage. A count of the
// prompt or of its estimate that is zero or less is not known, and corrects nothing. It charges
// nothing: see Commit. What was learned is saved with the state. With Config.Shared and
// Config.Store it is of this limiter alone, and ends with it. Reset keeps it. At most
// Config.MaxModels models are known, those that answered last. An llmhttp.Transport calls it.
func (rl *RateLimiter) ObserveAnswer(model string, estimated, used Usage) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name := rl.nameRLocked(model)
	if seen := rl.answers.Observe(name, estimated.tokens(), used.tokens(), rl.mostModels()); seen > 0 {
		rl.saver.ChangedAt(rl.clock.Sync())
	}
}

func (u Usage) tokens() state.Count {
	return state.Count{Input: u.PromptTokens, Output: u.OutputTokens}
}

// Estimate returns what was learned of the answers of model: the zero value before the first.
func (rl *RateLimiter) Estimate(model string) Estimate {
	rl.mu.RLock()
	name := rl.nameRLocked(model)
	rl.mu.RUnlock()
	e := rl.answers.Estimate(name)
	return Estimate{e.Answers, e.Output, e.Correction, e.ErrorP50, e.ErrorP95}
}

// Cause says in one word why a model is in a cooldown. Programs may store and compare the values.
type Cause string

const (
	CauseDailyQuota  Cause = "daily_quota"  // the provider said that the quota of the day is used up
	CauseRateLimited Cause = "rate_limited" // the provider said that its rate limit is exceeded
	CauseOverloaded  Cause = "overloaded"   // the provider said that it is overloaded
	CauseCaller      Cause = "caller"       // the program called Cooldown, or gave no cause
)

// Cooldown follows a provider that said to wait: the model admits nothing before until, also
// without a quota. A denial has the code DecisionCooldown, and its RetryAfter is the rest of the
// cooldown. Another cooldown never shortens one that ends later; Reset ends it. It follows the wall
// clock, and Persist keeps it. Its cause is CauseCaller: see CooldownFor. A time in the past does
// nothing, and one after April 11 of 2262, the last that int64 nanoseconds reach, counts as that.
// At most Config.MaxModels models without a quota of their own have a cooldown at a time.
func (rl *RateLimiter) Cooldown(model string, until time.Time) {
	rl.cool(model, state.Cooldown{Until: until.Round(0), Cause: state.CauseCaller})
}

// CooldownFor is Cooldown for d from now, with the cause that Decision.Cause then tells. Of two
// cooldowns of a model the one that ends later counts, with its cause; of two that end at the same
// time the first. The cause may be one of the program's own: 1 to 64 bytes of a-z, 0-9 and "_". Any
// other counts as CauseCaller. A duration of zero or less does nothing.
func (rl *RateLimiter) CooldownFor(model string, d time.Duration, cause Cause) {
	if d > 0 {
		until := time.Now().Round(0).Add(d)
		rl.cool(model, state.Cooldown{Until: until, Cause: state.KeptCause(string(cause))})
	}
}

func (rl *RateLimiter) cool(model string, c state.Cooldown) {
	rl.change(func(now account.Now) (saves bool) {
		asked, counted := strings.Clone(model), rl.adoptLocked(model, now)
		if rl.shared == nil {
			return rl.engine.Cool(counted, asked, clock.UnixNano(c.Until), c.Cause, now)
		}
		name := engine.Name{Asked: asked, Counted: counted}
		rl.shared.putLocked(engine.Cool{Name: name, Until: engine.ClampTime(rl.shared.wallOf(c.Until, now)), Cause: c.Cause})
		return false
	})
}
