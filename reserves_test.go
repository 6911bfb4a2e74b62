package ratelimit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func of(class string, tokens int) ratelimit.Request {
	return ratelimit.Request{Model: "m", Class: class, PromptTokens: tokens}
}

// admitted reserves until a request is denied, and returns how many passed.
func admitted(rl *ratelimit.RateLimiter, req ratelimit.Request, kept *[]*ratelimit.Reservation) (n int, d ratelimit.Decision) {
	for {
		r, d := rl.ReserveAny(req)
		if r == nil {
			return n, d
		}
		*kept = append(*kept, r)
		n++
	}
}

func TestReserveIsKeptForAnActiveClass(t *testing.T) {
	for limit, q := range map[string]ratelimit.ModelQuota{
		"requests":  {MaxRPM: 100},
		"tokens":    {MaxTPM: 1000},
		"in flight": {MaxInFlight: 100},
		"day":       {MaxRPD: 100, MaxTPD: 1000},
	} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"m": q},
					Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 30}, "also": {ReservePercent: 10}},
				})
				var kept []*ratelimit.Reservation
				defer func() {
					for _, r := range kept {
						r.Cancel()
					}
				}()
				r, _ := rl.ReserveAny(of("kept", 10))
				kept = append(kept, r)
				n, d := admitted(rl, of("", 10), &kept)
				if n != 70 || d.Never || d.RetryAfter <= 0 {
					t.Errorf("%d others passed, want 70 beside the reserve: %+v", n, d)
				}
				if !strings.HasSuffix(d.Reason, " that are left are kept for other classes") {
					t.Errorf("the reason is %q, want that of a reserve", d.Reason)
				}
				if rl.CanSend("m", 10) {
					t.Error("CanSend lets a call into the reserve")
				}
				if n, _ := admitted(rl, of("kept", 10), &kept); n != 29 {
					t.Errorf("%d of the class passed, want the rest of its reserve", n)
				}
			})
		})
	}
}

// TestReserveIsNotTheProvidersReport: what the provider reports denies in its own words, also while
// a reserve is kept.
func TestReserveIsNotTheProvidersReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}},
			Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 50}},
		})
		r, _ := rl.ReserveAny(of("kept", 1))
		r.Commit(1, 1)
		rl.Observe("m", ratelimit.ProviderLimits{
			RPM: ratelimit.ProviderLimit{Limit: 10, HasRemaining: true, Reset: 30 * time.Second},
		})
		if _, d := rl.ReserveAny(of("", 1)); d.Reason != "the provider reports fewer requests per minute left" {
			t.Errorf("the reason is %q, want the provider's report", d.Reason)
		}
	})
}

func TestReserveIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxInFlight: 10}},
			Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 50}},
		})
		var kept []*ratelimit.Reservation
		if n, _ := admitted(rl, of("other", 1), &kept); n != 10 {
			t.Errorf("%d passed, want all: the class was never active", n)
		}
		for _, r := range kept {
			r.Commit(1, 1)
		}
		time.Sleep(time.Minute + 1)
		// The class comes back, and has its reserve within a window.
		r, _ := rl.ReserveAny(of("kept", 1))
		r.Cancel()
		kept = nil
		n, d := admitted(rl, of("other", 1), &kept)
		if n != 5 {
			t.Errorf("%d passed beside the reserve", n)
		}
		got := make(chan time.Duration)
		go func() {
			began := time.Now()
			r, err := rl.Acquire(t.Context(), "m", 1, 1)
			if err != nil {
				t.Error(err)
			}
			r.Cancel()
			got <- time.Since(began)
		}()
		if waited := <-got; waited != d.RetryAfter || waited != time.Minute+1 {
			t.Errorf("waited %v, want %v: the class has not asked for a minute", waited, d.RetryAfter)
		}
		for _, r := range kept {
			r.Commit(1, 1)
		}
	})
}

// TestReserveIsExplained: Explain decides as Decide does, for a call without a class.
func TestReserveIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}},
			Classes: map[string]ratelimit.Class{"kept": {ReservePercent: 50}},
		})
		r, _ := rl.ReserveAny(of("kept", 1))
		r.Commit(1, 1)
		for range 5 {
			rl.RecordUsage("m", 1, 1)
		}
		e, d := rl.Explain("m"), rl.Decide("m", 1)
		if d.Allowed || e.Next != d {
			t.Errorf("Explain has %+v, want %+v", e.Next, d)
		}
		if text := e.String(); !strings.Contains(text, "kept for other classes") || strings.Contains(text, "others of the account") {
			t.Errorf("the text is %s", text)
		}
	})
}
