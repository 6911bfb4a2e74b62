package debugpage_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

// refuse has a provider refuse a call.
func refuse(t *testing.T, rl *ratelimit.RateLimiter, model, problem string) {
	t.Helper()
	rl.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: model, Status: 429, Problem: problem})
}

// TestFound has models whose limits are searched for, and what their rows say.
func TestFound(t *testing.T) {
	both := ratelimit.ModelQuota{
		AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 64,
	}
	const quota = "m quota set by the program "
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota
		do    func(t *testing.T, rl *ratelimit.RateLimiter) (end func())
		want  string
	}{
		{"at its beginning", both, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("m", 10, 10)
			time.Sleep(time.Second)
			return r.Cancel
		}, quota + "free slots found 1 / 4 open calls between 2 and 64 rate found 1 / 60 requests / min between 30 and 6,000 1 open"},
		{"refused and overloaded", both, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("m", 10, 10)
			refuse(t, rl, "m", "rate_limited")
			refuse(t, rl, "m", "overloaded")
			time.Sleep(3 * time.Second)
			return r.Cancel
		}, quota + "free slots found 1 / 3 open calls between 2 and 64; overloaded at 4; lowered 3 s ago " +
			"rate found 1 / 57 requests / min between 30 and 6,000; refused at 60; lowered 3 s ago 1 open"},
		{"spaced", ratelimit.ModelQuota{AdaptiveFloorRPM: 3}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("m", 1, 1)
			r.Commit(1, 1)
			rl.RecordUsage("m", 1, 1)
			return nil
		}, quota + "spaced requests are spaced by the rate that was found next room in 20 s rate found 2 / 6 requests / min between 3 and 1,000,000 0 open"},
		{"spaced, and a line", ratelimit.ModelQuota{AdaptiveFloorRPM: 3}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("m", 1, 1)
			r.Commit(1, 1)
			return acquirer(t, rl, "m", 1, 1)
		}, quota + "spaced requests are spaced by the rate that was found next room in 10 s rate found 1 / 6 requests / min between 3 and 1,000,000 0 open 1 in line"},
		{"calls at the found limit", ratelimit.ModelQuota{AdaptiveFloorInFlight: 1, MaxInFlight: 50}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			one, _ := rl.Reserve("m", 1, 1)
			two, _ := rl.Reserve("m", 1, 1)
			leave := acquirer(t, rl, "m", 1, 1)
			return func() { leave(); one.Cancel(); two.Cancel() }
		}, quota + "calls at limit calls in flight are at the limit that was found next room when the line has passed " +
			"open calls 2 / 50 slots found 2 / 2 open calls between 1 and 10,000 2 open"},
		{"calls at the found limit, and no line", ratelimit.ModelQuota{AdaptiveFloorInFlight: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			one, _ := rl.Reserve("m", 1, 1)
			two, _ := rl.Reserve("m", 1, 1)
			return func() { one.Cancel(); two.Cancel() }
		}, quota + "calls at limit calls in flight are at the limit next room when a call ends slots found 2 / 2 open calls between 1 and 10,000 2 open"},
		{"cap of the minute used up", ratelimit.ModelQuota{AdaptiveFloorRPM: 3, MaxRPM: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 1, 1)
			return nil
		}, quota + "requests used up requests per minute are used up next room in 1 min 00 s requests / min 1 / 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": test.quota})
				if end := test.do(t, rl); end != nil {
					defer end()
				}
				row := rowOf(get(debugpage.Handler(rl), "/").Body.String(), "m")
				if !strings.HasPrefix(row, test.want) {
					t.Errorf("the row says %q, want %q", row, test.want)
				}
			})
		})
	}
}

// TestFoundIdle: a model that is not used shows what was found; one without any limits says so.
func TestFoundIdle(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {AdaptiveFloorRPM: 30, AdaptiveFloorInFlight: 1}, "free": {}})
	page := get(debugpage.Handler(rl), "/").Body.String()
	for model, want := range map[string]string{
		"m":    "m quota set by the program slots found 0 of 2 rate found 0 of 60",
		"free": "free quota set by the program no limits",
	} {
		if row := rowOf(page, model); row != want {
			t.Errorf("%s: %q, want %q", model, row, want)
		}
	}
}

// TestFoundTold: where the provider's headers say the limits, no rate is searched for.
func TestFoundTold(t *testing.T) {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {AdaptiveFloorRPM: 30}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rl.RecordUsage("m", 1, 1)
	rl.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 500}})
	row := rowOf(get(debugpage.Handler(rl), "/").Body.String(), "m")
	if want := "requests / min 1 / 500 no rate is searched for: the provider says its limits 0 open"; !strings.HasSuffix(row, want) {
		t.Errorf("the row says %q, want %q at the end", row, want)
	}
}

// TestFoundStream: a viewer hears of a limit that was lowered, and else of nothing.
func TestFoundStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {AdaptiveFloorRPM: 30}})
		v := watch(t, debugpage.Handler(rl), "/?stream")
		v.event()
		refuse(t, rl, "m", "rate_limited")
		time.Sleep(time.Second + time.Millisecond)
		if n := v.event(); len(n.Rows) != 1 || !strings.Contains(n.Rows[0].html, "<b>0</b> of 57") {
			t.Errorf("the event has %+v", n.Rows)
		}
		time.Sleep(10 * time.Second)
		for _, n := range v.events() {
			if len(n.Rows) > 0 {
				t.Errorf("the event has %+v, though nothing has changed", n.Rows)
			}
		}
		v.leave()
	})
}
