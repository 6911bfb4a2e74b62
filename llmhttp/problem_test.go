package llmhttp

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

func TestProblem(t *testing.T) {
	sentinels := []error{ErrRateLimited, ErrDailyQuota, ErrExhausted, ErrOverloaded, ErrNotSent}
	tests := []struct {
		problem Problem
		text    string
		is      error // the only one that it is
	}{
		{Problem{Kind: RateLimited, Status: 429, Code: "rate_limit_exceeded", RetryAfter: 2 * time.Second},
			"provider: rate limited (429 rate_limit_exceeded), again in 2s", ErrRateLimited},
		{Problem{Kind: DailyQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Quota: "RequestsPerDay", Limit: 20,
			RetryAfter: time.Hour, Until: time.Date(2026, 10, 5, 0, 0, 0, 0, time.FixedZone("", -7*3600))},
			"provider: daily quota used up (429 RESOURCE_EXHAUSTED RequestsPerDay), until 2026-10-05T07:00:00Z", ErrDailyQuota},
		{Problem{Kind: Exhausted, Status: 402}, "provider: money or plan used up (402)", ErrExhausted},
		{Problem{Kind: Overloaded, Status: 529, Code: "overloaded_error"}, "provider: overloaded (529 overloaded_error)", ErrOverloaded},
		{Problem{Kind: Rejected, Status: 400}, "provider: rejected (400)", nil},
		{Problem{Kind: Failed, Status: 500, RetryAfter: time.Second}, "provider: failed (500), again in 1s", nil},
		{Problem{}, "provider: unknown problem (0)", nil},
		{Problem{Kind: NotSent, Status: 429, Code: "rpm_exceeded", RetryAfter: time.Second}, "llmhttp: call was not sent (429 rpm_exceeded), again in 1s", ErrNotSent},
		{Problem{Kind: NotSent + 1}, "provider: unknown problem (0)", nil},
	}
	for _, test := range tests {
		err := fmt.Errorf("call: %w", &test.problem)
		if got := test.problem.Error(); got != test.text {
			t.Errorf("got %q, want %q", got, test.text)
		}
		for _, s := range sentinels {
			if got := errors.Is(err, s); got != (s == test.is) {
				t.Errorf("%s: is %q %v", test.text, s, got)
			}
		}
		if test.problem.Is(nil) {
			t.Errorf("%s: is nil", test.text)
		}
		var p *Problem
		if !errors.As(err, &p) || p != &test.problem {
			t.Errorf("%s: not found by errors.As", test.text)
		}
		if got := test.problem.limits(); got != (ratelimit.ProviderLimits{}) {
			t.Errorf("%s: teaches %+v", test.text, got)
		}
	}
}
