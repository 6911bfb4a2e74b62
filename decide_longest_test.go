// Several limits deny: the reason tells the one that lasts longest, too, and money is told as such.

package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestReasonTellsTheLongest(t *testing.T) {
	const day, month = 24 * time.Hour, 31 * 24 * time.Hour // the bubble begins with a month
	dear := map[string]money.Price{"m": {Input: money.Dollar}, "n": {Input: money.Dollar}}
	quota := func(q ratelimit.ModelQuota) map[string]ratelimit.ModelQuota {
		return map[string]ratelimit.ModelQuota{"m": q, "n": {MaxRPM: 1}}
	}
	both := []ratelimit.Request{{Model: "n", PromptTokens: 1}, {Model: "m", PromptTokens: 1}}
	one := both[1:]
	for name, test := range map[string]struct {
		cfg    ratelimit.Config
		ask    []ratelimit.Request
		code   ratelimit.DecisionCode
		reason string
		after  time.Duration
		budget bool
	}{
		"the first is the longest": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxRPM: 1, MaxRPD: 1})}, one,
			ratelimit.DecisionRPDLimit, "requests per day are used up", day, false},
		"equally long": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 1})}, one,
			ratelimit.DecisionRPMLimit, "requests per minute are used up", time.Minute + 1, false},
		"a day, then the month": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxRPD: 1, MaxSpendPerMonth: 1}), Prices: dear}, one,
			ratelimit.DecisionRPDLimit, "requests per day are used up; longest: the spend of the month is used up", month, true},
		"the month alone": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxSpendPerDay: 1, MaxSpendPerMonth: 1}), Prices: dear}, one,
			ratelimit.DecisionSpendLimit, "the spend of the day is used up; longest: the spend of the month is used up", month, true},
		"the call in flight, and the month": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxInFlight: 1, MaxSpendPerMonth: 1}), Prices: dear}, one,
			ratelimit.DecisionInFlightLimit, "calls in flight are at the limit; longest: the spend of the month is used up", 0, true},
		"a minute, then the month of a pool": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxRPM: 1}), Prices: dear,
			Pools: map[string]ratelimit.Pool{"a": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPD: 1}},
				"b": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 1, MaxSpendPerMonth: 1}}}}, one,
			ratelimit.DecisionRPMLimit, `requests per minute are used up; longest: the pool "b": the spend of the month is used up`, month, true},
		"of two models": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxRPD: 1})}, both,
			ratelimit.DecisionRPMLimit, `requests per minute are used up; longest: model "m": requests per day are used up`, day, false},
		"of two models, the month of the second": {ratelimit.Config{Quotas: quota(ratelimit.ModelQuota{MaxRPD: 1, MaxSpendPerMonth: 1}), Prices: dear}, both,
			ratelimit.DecisionRPMLimit, `requests per minute are used up; longest: model "m": the spend of the month is used up`, month, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, test.cfg)
				if rs, d := rl.ReserveAll(both...); !d.Allowed {
					t.Fatalf("%+v", d)
				} else if test.after == 0 {
					defer rs.Cancel()
				} else {
					for _, r := range rs {
						r.Commit(1, 0)
					}
				}
				check := func(by string, d ratelimit.Decision) {
					if d.Allowed || d.Code != test.code || d.Reason != test.reason || d.RetryAfter != test.after || d.OverBudget != test.budget {
						t.Errorf("%s: %s %q, after %v, budget %v; want %s %q, after %v, %v",
							by, d.Code, d.Reason, d.RetryAfter, d.OverBudget, test.code, test.reason, test.after, test.budget)
					}
				}
				_, d := rl.ReserveAll(test.ask...)
				check("ReserveAll", d)
				if len(test.ask) == 1 {
					check("DecideRequest", rl.DecideRequest(test.ask[0]))
					check("Explain", rl.Explain("m").Next)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := rl.AcquireAll(ctx, test.ask...)
				var limited *ratelimit.LimitError
				if errors.As(err, &limited) {
					check("AcquireAll", limited.Decision)
				} else if test.after > 0 {
					t.Errorf("AcquireAll: %v", err)
				}
				if limited != nil && (errors.Is(err, ratelimit.ErrBudget) != test.budget || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("%v is ErrBudget: %v", err, !test.budget)
				}
			})
		})
	}
}

// A request that is dearer than the budget is denied by money, and one without a price is not.
func TestErrBudget(t *testing.T) {
	for _, test := range []struct {
		name  string
		price map[string]money.Price
		want  bool
	}{
		{"too dear", map[string]money.Price{"m": {Input: money.Dollar}}, true},
		{"without a price", nil, false},
	} {
		rl := newLimiterWith(t, ratelimit.Config{Prices: test.price, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: 1}}})
		_, err := rl.Acquire(t.Context(), "m", 2, 0)
		if !errors.Is(err, ratelimit.ErrNeverFits) || errors.Is(err, ratelimit.ErrBudget) != test.want {
			t.Errorf("%s: %v is ErrBudget: %v", test.name, err, !test.want)
		}
		err = rl.Do(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 2}, nil)
		if errors.Is(err, ratelimit.ErrBudget) != test.want {
			t.Errorf("%s: %v is ErrBudget: %v", test.name, err, !test.want)
		}
	}
}
