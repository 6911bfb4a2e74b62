// Decide: each code, how long to wait, what it costs, and which limit it names.

package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestDecide(t *testing.T) {
	type charge struct {
		ago    time.Duration
		tokens int
	}
	tests := []struct {
		name       string
		quota      ratelimit.ModelQuota
		charges    []charge
		estimate   int
		code       ratelimit.DecisionCode
		retryAfter time.Duration
		never      bool
	}{
		{"fits", ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 100, MaxRPD: 2}, []charge{{1 * time.Second, 50}}, 50,
			ratelimit.DecisionAllowed, 0, false},
		{"one token too many", ratelimit.ModelQuota{MaxTPM: 100}, []charge{{10 * time.Second, 50}}, 51,
			ratelimit.DecisionTPMLimit, 50*time.Second + 1, false},
		{"waits for the second charge", ratelimit.ModelQuota{MaxTPM: 100}, []charge{{30 * time.Second, 10}, {10 * time.Second, 60}}, 50,
			ratelimit.DecisionTPMLimit, 50*time.Second + 1, false},
		{"the window holds more than the quota", ratelimit.ModelQuota{MaxTPM: 100}, []charge{{30 * time.Second, 90}, {20 * time.Second, 90}, {10 * time.Second, 90}}, 0,
			ratelimit.DecisionTPMLimit, 40*time.Second + 1, false},
		{"nothing is asked and the window is full", ratelimit.ModelQuota{MaxTPM: 100}, []charge{{time.Second, 100}}, 0,
			ratelimit.DecisionAllowed, 0, false},
		{"larger than the quota", ratelimit.ModelQuota{MaxTPM: 100}, nil, 101,
			ratelimit.DecisionTPMLimit, 0, true},
		{"larger than the quota, and the requests are used up", ratelimit.ModelQuota{MaxTPM: 100, MaxRPM: 1}, []charge{{time.Second, 1}}, 101,
			ratelimit.DecisionRPMLimit, 0, true},
		{"requests used up", ratelimit.ModelQuota{MaxRPM: 2}, []charge{{50 * time.Second, 1}, {20 * time.Second, 1}}, 1,
			ratelimit.DecisionRPMLimit, 10*time.Second + 1, false},
		{"more requests than the quota", ratelimit.ModelQuota{MaxRPM: 1}, []charge{{50 * time.Second, 1}, {20 * time.Second, 1}}, 1,
			ratelimit.DecisionRPMLimit, 40*time.Second + 1, false},
		{"a charge of exactly a minute counts", ratelimit.ModelQuota{MaxRPM: 1}, []charge{{time.Minute, 1}}, 1,
			ratelimit.DecisionRPMLimit, 1, false},
		{"a charge older than a minute does not", ratelimit.ModelQuota{MaxRPM: 1}, []charge{{time.Minute + 1, 1}}, 1,
			ratelimit.DecisionAllowed, 0, false},
		{"the day is used up", ratelimit.ModelQuota{MaxRPD: 2}, []charge{{3 * time.Hour, 1}, {2 * time.Hour, 1}}, 1,
			ratelimit.DecisionRPDLimit, 21 * time.Hour, false},
		{"all three deny: the day names it, the longest wait counts", ratelimit.ModelQuota{MaxRPD: 1, MaxRPM: 1, MaxTPM: 10}, []charge{{time.Second, 10}}, 1,
			ratelimit.DecisionRPDLimit, 24*time.Hour - time.Second, false},
		{"the minute outlasts the day", ratelimit.ModelQuota{MaxRPD: 2, MaxRPM: 1}, []charge{{24*time.Hour - time.Second, 1}, {10 * time.Second, 1}}, 1,
			ratelimit.DecisionRPDLimit, 50*time.Second + 1, false},
		{"requests deny before tokens", ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 10}, []charge{{time.Second, 10}}, 1,
			ratelimit.DecisionRPMLimit, 59*time.Second + 1, false},
		{"unlimited", ratelimit.ModelQuota{}, []charge{{time.Second, 10}}, math.MaxInt,
			ratelimit.DecisionUnlimited, 0, false},
		{"negative estimate", ratelimit.ModelQuota{MaxRPM: 1}, nil, -1,
			ratelimit.DecisionInvalidTokens, 0, true},
		{"negative estimate of an unlimited model", ratelimit.ModelQuota{}, nil, math.MinInt,
			ratelimit.DecisionInvalidTokens, 0, true},
		{"the largest quota is never exceeded", ratelimit.ModelQuota{MaxTPM: math.MaxInt}, []charge{{time.Second, math.MaxInt}, {time.Second, math.MaxInt}}, 0,
			ratelimit.DecisionAllowed, 0, false},
		{"the largest estimate waits", ratelimit.ModelQuota{MaxTPM: math.MaxInt}, []charge{{time.Second, 1}}, math.MaxInt,
			ratelimit.DecisionTPMLimit, 59*time.Second + 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				started := time.Now()
				for _, c := range tt.charges {
					time.Sleep(time.Until(started.Add(48*time.Hour - c.ago)))
					rl.RecordUsage("m", c.tokens, 0)
				}
				time.Sleep(time.Until(started.Add(48 * time.Hour)))

				d := rl.Decide("m", tt.estimate)
				allowed := tt.code == ratelimit.DecisionAllowed || tt.code == ratelimit.DecisionUnlimited
				if d.Code != tt.code || d.Allowed != allowed || d.RetryAfter != tt.retryAfter || d.Never != tt.never {
					t.Fatalf("Decide = %+v, want code %s, retry after %v, never %v", d, tt.code, tt.retryAfter, tt.never)
				}
				if rl.CanSend("m", tt.estimate) != allowed {
					t.Errorf("CanSend = %v", !allowed)
				}
				if d.RetryAfter == 0 {
					return
				}
				time.Sleep(d.RetryAfter - 1)
				if d := rl.Decide("m", tt.estimate); d.Allowed || d.RetryAfter != 1 {
					t.Errorf("a nanosecond earlier: %+v", d)
				}
				time.Sleep(1 * time.Nanosecond)
				if !rl.CanSend("m", tt.estimate) {
					t.Errorf("denied at the instant that RetryAfter named: %+v", rl.Decide("m", tt.estimate))
				}
			})
		})
	}
}

func TestDecideShowsWhatAnUnlimitedModelUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		rl.RecordUsage("m", 10, 5)
		time.Sleep(30 * time.Second)
		rl.RecordUsage("m", 1, 1)
		want := ratelimit.ModelStats{
			RPM: 2, TPM: 17, RPD: 2, DayStart: rl.State["m"].DayStart, ITPM: 11, OTPM: 6, TPD: 17,
		}
		if d := rl.Decide("m", 1); d.Stats != want {
			t.Errorf("stats are %+v, want %+v", d.Stats, want)
		}
		time.Sleep(40 * time.Second)
		want.RPM, want.TPM, want.ITPM, want.OTPM = 1, 2, 1, 1
		if d := rl.Decide("m", 1); d.Stats != want {
			t.Errorf("stats are %+v, want %+v", d.Stats, want)
		}
		if n := len(rl.State["m"].Requests); n != 2 {
			t.Errorf("Decide pruned the state of an unlimited model to %d", n)
		}
	})
}

func TestDecideNamesTheInvalidField(t *testing.T) {
	for _, tt := range []struct {
		quota ratelimit.ModelQuota
		field string
	}{
		{ratelimit.ModelQuota{MaxRPM: -1}, "MaxRPM"},
		{ratelimit.ModelQuota{MaxTPM: -1, MaxRPM: 5}, "MaxTPM"},
		{ratelimit.ModelQuota{MaxRPD: math.MinInt}, "MaxRPD"},
	} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 5})
		rl.SetQuota("m", tt.quota)
		d := rl.Decide("m", 0)
		if d.Allowed || !d.Never || d.Code != ratelimit.DecisionInvalidQuota || !strings.Contains(d.Reason, tt.field) {
			t.Errorf("%+v: Decide = %+v", tt.quota, d)
		}
		if rl.CanSend("m", 0) {
			t.Errorf("%+v admits", tt.quota)
		}
	}
}

func TestMarginKeepsChargesCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1, MaxTPM: 10}},
			Margin: 250 * time.Millisecond,
		})
		rl.RecordUsage("m", 10, 0)
		time.Sleep(time.Minute + 250*time.Millisecond)
		if d := rl.Decide("m", 1); d.Allowed || d.RetryAfter != 1 || d.Stats.TPM != 10 {
			t.Errorf("at a minute and the margin: %+v", d)
		}
		time.Sleep(1 * time.Nanosecond)
		if !rl.CanSend("m", 1) {
			t.Error("denied after a minute and the margin")
		}
	})
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1000, MaxTPM: 5000, MaxRPD: 100_000})
	for range 500 {
		rl.RecordUsage("m", 5, 5)
	}
	rl.SetQuota("bad", ratelimit.ModelQuota{MaxRPM: -1})
	rl.SetQuota("paced", ratelimit.ModelQuota{MaxRPM: 1_000_000_000, MaxTPM: 1_000_000_000, Burst: time.Second})
	for range 10_000 {
		rl.RecordUsage("paced", 1, 1)
	}
	rl.SetQuota("slow", ratelimit.ModelQuota{MaxRPM: 60, Burst: 1})
	rl.RecordUsage("slow", 1, 1)
	for name, call := range map[string]func(){
		"CanSend":             func() { rl.CanSend("m", 0) },
		"CanSend denied":      func() { rl.CanSend("m", 1) },
		"Decide":              func() { rl.Decide("m", 0) },
		"Decide denied":       func() { rl.Decide("m", 1) },
		"Decide never":        func() { rl.Decide("m", 5001) },
		"Decide bad quota":    func() { rl.Decide("bad", 1) },
		"Decide unknown":      func() { rl.Decide("other", 1) },
		"CanSend paced":       func() { rl.CanSend("paced", 1) },
		"Decide slow":         func() { rl.Decide("slow", 1) },
		"Stats":               func() { rl.Stats("m") },
		"Stats of an unknown": func() { rl.Stats("other") },
	} {
		if n := testing.AllocsPerRun(1000, call); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The codes of the table of limits are those that programs compare.
func TestCodesOfTheTableOfLimits(t *testing.T) {
	for of, want := range map[state.Dimension]ratelimit.DecisionCode{
		state.RPM: ratelimit.DecisionRPMLimit, state.TPM: ratelimit.DecisionTPMLimit, state.RPD: ratelimit.DecisionRPDLimit,
		state.ITPM: ratelimit.DecisionITPMLimit, state.OTPM: ratelimit.DecisionOTPMLimit, state.TPD: ratelimit.DecisionTPDLimit,
		state.InFlight: ratelimit.DecisionInFlightLimit,
	} {
		if got := state.Limits[of].Code; got != string(want) {
			t.Errorf("row %s has the code %q, want %q", state.Limits[of].Field, got, want)
		}
	}
}

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
