package llmhttp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// ProblemKind is the class of a [Problem], which determines the right reaction.
type ProblemKind int

// The kinds of problems. The zero ProblemKind is invalid.
const (
	// RateLimited is a limit that refills soon: wait, and try again.
	RateLimited ProblemKind = iota + 1
	// DailyQuota is a used-up quota of the day: wait for the end of the day.
	DailyQuota
	// Exhausted is used-up money or a used-up plan: waiting does not help.
	Exhausted
	// Overloaded is an overloaded provider, whatever one's own quota is: back off.
	Overloaded
	// Rejected is a call that the provider refuses for its content: another status from 400 to
	// 499.
	Rejected
	// Failed is a failure of the provider: another status of 500 or more.
	Failed
	// NotSent is a call that a Transport refused: it did not fit the quota and was not sent.
	NotSent
)

// The errors that a Problem matches with errors.Is, by its kind.
var (
	// ErrRateLimited matches a Problem of the kind RateLimited.
	ErrRateLimited = errors.New("rate limited")
	// ErrDailyQuota matches a Problem of the kind DailyQuota.
	ErrDailyQuota = errors.New("daily quota used up")
	// ErrExhausted matches a Problem of the kind Exhausted.
	ErrExhausted = errors.New("credit or plan used up")
	// ErrOverloaded matches a Problem of the kind Overloaded.
	ErrOverloaded = errors.New("overloaded")
	// ErrNotSent matches a Problem of the kind NotSent. It is ratelimit.ErrNotSent.
	ErrNotSent = ratelimit.ErrNotSent
)

// String returns the kind in words, such as "rate limited".
func (k ProblemKind) String() string {
	if err := k.err(); err != nil {
		return err.Error()
	}
	switch k {
	case Rejected:
		return "rejected"
	case Failed:
		return "failed"
	}
	return "unknown problem"
}

// err returns the error that problems of the kind match; nil if there is none.
func (k ProblemKind) err() error {
	switch k {
	case RateLimited:
		return ErrRateLimited
	case DailyQuota:
		return ErrDailyQuota
	case Exhausted:
		return ErrExhausted
	case Overloaded:
		return ErrOverloaded
	case NotSent:
		return ErrNotSent
	}
	return nil
}

// refusal returns the name of the kind in a ratelimit.ProviderRefusal; empty for a kind that is no
// refusal of the provider.
func (k ProblemKind) refusal() string {
	switch k {
	case RateLimited:
		return "rate_limited"
	case DailyQuota:
		return "daily_quota"
	case Exhausted:
		return "exhausted"
	case Overloaded:
		return "overloaded"
	}
	return ""
}

// Problem is the reason why a provider did not answer a call. It is an error that matches
// ErrRateLimited, ErrDailyQuota, ErrExhausted, ErrOverloaded or ErrNotSent by its kind; a NotSent
// also matches ratelimit.ErrBudget if a limit of spend was among those that denied. It contains
// nothing of the call but the name of its model, no key and no prompt. [Classify] and [FromError]
// return it; only tests need to make one.
type Problem struct {
	Kind ProblemKind
	// Status is the HTTP status of the answer.
	Status int
	// RetryAfter is the time to wait before the next call, counted from the answer; zero if the
	// answer does not state it. It is at most 25 hours, and zero if Kind is Exhausted. That of a
	// NotSent is the decision's: the rest of the month where a budget of the month is used up.
	RetryAfter time.Duration
	// Until is the end of the day of a DailyQuota, or its latest possible end; zero for other
	// kinds.
	Until time.Time
	// Code is the provider's own name of the problem, such as "insufficient_quota", and for
	// NotSent the code of the decision, such as "rpm_exceeded". A code is at most 64 letters,
	// digits and the signs _ . : and -; without one, Code is empty.
	Code string
	// Model is the model that denied a NotSent, which WithCharge may have added; empty for other
	// kinds.
	Model string
	// Pool is the pool of that model that denied, as in ratelimit.Decision; empty where the model
	// itself did.
	Pool string
	// Reason is why a NotSent was denied, in words for people, such as "the spend of the day is
	// used up"; empty for other kinds, and where only a part of the refusal is left.
	Reason string
	// Err is what ended the wait of a NotSent, as in *ratelimit.LimitError: ratelimit.ErrMaxWait,
	// ErrSignatureAge, ratelimit.ErrNeverFits, ratelimit.ErrQueueFull or context.DeadlineExceeded.
	// The Problem matches it, too. It is nil for other kinds.
	Err error
	// Cause is why a NotSent was refused by a cooldown, as in ratelimit.Decision: so a call that
	// was not sent because the provider's day is used up tells it. It is empty for others.
	Cause ratelimit.Cause
	// Quota is the exceeded quota as Gemini names it, at most 128 such characters; empty if the
	// answer does not name it.
	Quota string
	// Limit is the size of Quota; zero if the answer does not state it.
	Limit int

	overBudget bool // of a NotSent: as in ratelimit.Decision
	learned    ratelimit.ProviderLimits
}

// Error returns the kind of the problem with its status and code, and the time that it lasts; of a
// NotSent also the model, the pool that denied, and why.
func (p *Problem) Error() string {
	if p == nil {
		return "provider: no problem"
	}
	var b strings.Builder
	origin := "provider"
	if p.Kind == NotSent {
		origin = "llmhttp"
	}
	fmt.Fprintf(&b, "%s: %v (%d", origin, p.Kind, p.Status)
	for _, name := range []string{p.Code, p.Quota} {
		if name != "" {
			b.WriteString(" " + name)
		}
	}
	b.WriteByte(')')
	if p.Model != "" {
		b.WriteString(": " + denied(p.Model, p.Pool))
	}
	if p.Reason != "" {
		b.WriteString(": " + p.Reason)
	}
	switch {
	case !p.Until.IsZero():
		b.WriteString(", until " + p.Until.UTC().Format(time.RFC3339))
	case p.RetryAfter > 0:
		fmt.Fprintf(&b, ", again in %v", p.RetryAfter)
	}
	if p.Err != nil {
		fmt.Fprintf(&b, ": %v", p.Err)
	}
	return b.String()
}

// Unwrap returns Err; nil for a nil Problem.
func (p *Problem) Unwrap() error {
	if p == nil {
		return nil
	}
	return p.Err
}

// Is reports whether target is the error of the problem's kind, or ratelimit.ErrBudget of a NotSent
// that a limit of spend denied. A nil Problem matches nothing.
func (p *Problem) Is(target error) bool {
	if p == nil {
		return false
	}
	if target == ratelimit.ErrBudget {
		return p.Kind == NotSent && (p.overBudget || p.Code == string(ratelimit.DecisionSpendLimit))
	}
	err := p.Kind.err()
	return err != nil && err == target
}

// limits returns the limits of the model that the body of the answer reports.
func (p *Problem) limits() ratelimit.ProviderLimits { return p.learned }
