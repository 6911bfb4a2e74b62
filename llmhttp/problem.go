package llmhttp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// ProblemKind says what to do about a Problem.
type ProblemKind int

// The kinds of problems. The zero ProblemKind is none of them.
const (
	// RateLimited is a limit that is there again soon: wait, and try again.
	RateLimited ProblemKind = iota + 1
	// DailyQuota is a quota of the day that is used up: wait for the day's end.
	DailyQuota
	// Exhausted is money or a plan that is used up: no wait helps.
	Exhausted
	// Overloaded is a provider that has too much to do, whatever the own quota is: back off.
	Overloaded
	// Rejected is a call that the provider refuses for what it is: another status from 400 to 499.
	Rejected
	// Failed is a provider that failed: another status from 500 on.
	Failed
	// NotSent is a call that a Transport refused: it has no place in the quota, and was not sent.
	NotSent
)

// The errors that a Problem matches with errors.Is, by its kind.
var (
	// ErrRateLimited matches a Problem of the kind RateLimited.
	ErrRateLimited = errors.New("rate limited")
	// ErrDailyQuota matches a Problem of the kind DailyQuota.
	ErrDailyQuota = errors.New("daily quota used up")
	// ErrExhausted matches a Problem of the kind Exhausted.
	ErrExhausted = errors.New("money or plan used up")
	// ErrOverloaded matches a Problem of the kind Overloaded.
	ErrOverloaded = errors.New("overloaded")
	// ErrNotSent matches a Problem of the kind NotSent. It is ratelimit.ErrNotSent.
	ErrNotSent = ratelimit.ErrNotSent
)

// String returns the kind in words, as "rate limited".
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

// Problem is why a provider did not answer a call. It is an error that matches
// ErrRateLimited, ErrDailyQuota, ErrExhausted, ErrOverloaded or ErrNotSent by its kind. It has nothing
// of the call in it, no key and no prompt. See [Classify]; to make one is for tests.
type Problem struct {
	Kind ProblemKind
	// Status is the HTTP status of the answer.
	Status int
	// RetryAfter is how long to wait before the next call, counted from the answer; zero
	// when that was not said. It is at most 25 hours, and zero when Exhausted.
	RetryAfter time.Duration
	// Until is when the day of a DailyQuota ends, or at the latest may end; zero for
	// other kinds.
	Until time.Time
	// Code is the provider's own name of the problem, as "insufficient_quota", and of one that is
	// NotSent the code of the decision, as "rpm_exceeded"; empty when
	// there is none of at most 64 letters, digits and the signs _ . : and -.
	Code string
	// Quota is the quota that was exceeded, as Gemini names it, of at most 128 such
	// characters; empty when that was not said.
	Quota string
	// Limit is how large Quota is; zero when that was not said.
	Limit int

	told ratelimit.ProviderLimits
}

// Error says what the kind of the problem is, with its status and code, and how long it
// lasts.
func (p *Problem) Error() string {
	if p == nil {
		return "provider: no problem"
	}
	var b strings.Builder
	who := "provider"
	if p.Kind == NotSent {
		who = "llmhttp"
	}
	fmt.Fprintf(&b, "%s: %v (%d", who, p.Kind, p.Status)
	for _, name := range []string{p.Code, p.Quota} {
		if name != "" {
			b.WriteString(" " + name)
		}
	}
	b.WriteByte(')')
	switch {
	case !p.Until.IsZero():
		b.WriteString(", until " + p.Until.UTC().Format(time.RFC3339))
	case p.RetryAfter > 0:
		fmt.Fprintf(&b, ", again in %v", p.RetryAfter)
	}
	return b.String()
}

// Is reports whether target is the error of the problem's kind. A nil Problem is none of
// them.
func (p *Problem) Is(target error) bool {
	if p == nil {
		return false
	}
	err := p.Kind.err()
	return err != nil && err == target
}

// limits returns what the body of the answer says of the limits of the model.
func (p *Problem) limits() ratelimit.ProviderLimits { return p.told }
