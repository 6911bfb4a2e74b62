// Burst: calls spread over the minute.

package ratelimit_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Ten seconds' share of 60 requests a minute start back to back, the others one a
// second.
func TestPaceOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 60, Burst: 10 * time.Second})
		for i := range 10 {
			if !rl.CanSend("m", 0) {
				t.Fatalf("call %d of the burst is denied", i+1)
			}
			rl.RecordUsage("m", 0, 0)
		}
		for i := range 50 {
			d := rl.Decide("m", 0)
			if rl.CanSend("m", 0) || d.Allowed || d.Code != ratelimit.DecisionRPMLimit || !strings.Contains(d.Reason, "pace") || d.RetryAfter != time.Second {
				t.Fatalf("call %d after the burst: %+v", i+1, d)
			}
			time.Sleep(d.RetryAfter - 1)
			if rl.CanSend("m", 0) {
				t.Fatalf("call %d passes too early", i+1)
			}
			time.Sleep(time.Nanosecond)
			if !rl.CanSend("m", 0) {
				t.Fatalf("call %d is denied in its second", i+1)
			}
			rl.RecordUsage("m", 0, 0)
		}
		// The minute holds beside it: those of the burst leave it at its end.
		if d := rl.Decide("m", 0); d.Code != ratelimit.DecisionRPMLimit || strings.Contains(d.Reason, "pace") || d.RetryAfter != 10*time.Second+1 {
			t.Errorf("the minute is used up: %+v", d)
		}
	})
}

func TestPaceDecides(t *testing.T) {
	type quota = ratelimit.ModelQuota
	const s = time.Second
	type call struct{ input, output int }
	tests := []struct {
		name  string
		quota quota
		calls []call // at once
		pause time.Duration
		ask   call
		code  ratelimit.DecisionCode
		retry time.Duration
	}{
		{"the first", quota{MaxRPM: 60, Burst: 1}, nil, 0, call{}, ratelimit.DecisionAllowed, 0},
		{"a share of less than a call", quota{MaxRPM: 60, Burst: 1}, []call{{}}, 0, call{}, ratelimit.DecisionRPMLimit, s},
		{"a share of one call", quota{MaxRPM: 60, Burst: s}, []call{{}}, 0, call{}, ratelimit.DecisionRPMLimit, s},
		{"a share of a call and a half", quota{MaxRPM: 60, Burst: 3 * s / 2}, []call{{}}, 0, call{}, ratelimit.DecisionRPMLimit, s / 2},
		{"a share that the quota does not divide", quota{MaxRPM: 70, Burst: 6 * s}, make([]call, 6), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"and one more", quota{MaxRPM: 70, Burst: 6 * s}, make([]call, 7), 0, call{}, ratelimit.DecisionRPMLimit, 857_142_858},
		{"zero is the whole minute", quota{MaxRPM: 60}, make([]call, 59), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"a minute is the whole minute", quota{MaxRPM: 60, Burst: time.Minute}, make([]call, 59), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"more than a minute, too", quota{MaxRPM: 60, Burst: time.Hour}, make([]call, 59), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"nearly a minute", quota{MaxRPM: 60, Burst: time.Minute - 1}, make([]call, 59), 0, call{}, ratelimit.DecisionRPMLimit, 1},
		{"tokens", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{600, 0}}, 0, call{700, 0}, ratelimit.DecisionTPMLimit, 3 * s},
		{"tokens that fit", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{600, 0}}, 0, call{400, 0}, ratelimit.DecisionAllowed, 0},
		{"prompt and output", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{500, 100}}, 0, call{600, 100}, ratelimit.DecisionTPMLimit, 3 * s},
		{"input tokens", quota{MaxITPM: 6000, Burst: 10 * s}, []call{{1000, 9999}}, 0, call{1, 9999}, ratelimit.DecisionITPMLimit, s / 100},
		{"output tokens", quota{MaxOTPM: 6000, Burst: 10 * s}, []call{{9999, 1000}}, 0, call{9999, 1}, ratelimit.DecisionOTPMLimit, s / 100},
		{"nothing of what is spread", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{1000, 0}}, 0, call{}, ratelimit.DecisionAllowed, 0},
		{"a call larger than the burst", quota{MaxTPM: 6000, Burst: 10 * s}, nil, 0, call{6000, 0}, ratelimit.DecisionAllowed, 0},
		{"one before it", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{100, 0}}, 0, call{2000, 0}, ratelimit.DecisionTPMLimit, s},
		{"is paid for afterwards", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{3000, 0}}, 0, call{100, 0}, ratelimit.DecisionTPMLimit, 30*s - 9*s},
		{"also by who asks for nothing", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{3000, 0}}, 0, call{}, ratelimit.DecisionTPMLimit, 20 * s},
		{"some of it is paid", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{3000, 0}}, 12 * s, call{100, 0}, ratelimit.DecisionTPMLimit, 9 * s},
		{"larger than the minute", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{60_000, 0}}, 0, call{1, 0}, ratelimit.DecisionTPMLimit, 60*s + 1},
		{"both, requests first", quota{MaxRPM: 60, MaxTPM: 6000, Burst: 10 * s}, []call{{2000, 0}, {}, {}, {}, {}, {}, {}, {}, {}, {}}, 0, call{}, ratelimit.DecisionRPMLimit, 10 * s},
		{"the minute holds beside it", quota{MaxRPM: 60, MaxTPM: 600, Burst: s}, []call{{600, 0}}, 0, call{1, 0}, ratelimit.DecisionRPMLimit, 60*s + 1},
		{"no limit of the minute", quota{MaxRPD: 9, Burst: s}, make([]call, 8), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"nothing to spread", quota{Burst: s}, make([]call, 8), 0, call{}, ratelimit.DecisionUnlimited, 0},
		{"the whole burst is back", quota{MaxRPM: 60, Burst: 10 * s}, make([]call, 10), 10 * s, call{}, ratelimit.DecisionAllowed, 0},
		{"the largest limits", quota{MaxRPM: maxInt, MaxTPM: maxInt, Burst: s}, []call{{maxInt / 2, 0}}, 0, call{1, 0}, ratelimit.DecisionTPMLimit, 29*s + 30*s/time.Duration(maxInt) + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				for _, c := range tt.calls {
					rl.RecordUsage("m", c.input, c.output)
				}
				time.Sleep(tt.pause)
				req := ratelimit.Request{Model: "m", PromptTokens: tt.ask.input, OutputTokens: tt.ask.output}
				d := rl.DecideRequest(req)
				if d.Code != tt.code || d.RetryAfter != tt.retry || d.Allowed != (tt.retry == 0) || d.Never {
					t.Fatalf("%+v, want %s after %v", d, tt.code, tt.retry)
				}
				if d.Allowed {
					return
				}
				time.Sleep(d.RetryAfter - 1)
				if early := rl.DecideRequest(req); early.Allowed {
					t.Error("it passes a nanosecond early")
				}
				time.Sleep(time.Nanosecond)
				if late := rl.DecideRequest(req); !late.Allowed {
					t.Errorf("it does not pass in time: %+v", late)
				}
			})
		})
	}
}

func TestPaceOfANegativeBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := ratelimit.NewWithConfig(ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1, Burst: -time.Second}}})
		if want := `invalid quota: model "m": Burst (burst) is -1s, want 0 or more`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		for _, quota := range []ratelimit.ModelQuota{{Burst: -1}, {MaxRPM: 5, Burst: -1}, {MaxRPD: 5, Burst: -1}} {
			rl := newLimiter(t, ratelimit.ModelQuota{})
			rl.SetQuota("m", quota)
			for range 2 {
				d := rl.Decide("m", 1)
				if r, _ := rl.Reserve("m", 1, 1); rl.CanSend("m", 1) || r != nil || d.Allowed || !d.Never || d.Code != ratelimit.DecisionInvalidQuota || !strings.Contains(d.Reason, "Burst (burst) is negative") {
					t.Errorf("%+v: %+v", quota, d)
				}
				rl.RecordUsage("m", 1, 1)
			}
		}
	})
}

const maxInt = int(^uint(0) >> 1)

// An estimate that was too high comes back, as if it had been right.
func TestPaceSettles(t *testing.T) {
	const s = time.Second
	type step struct {
		name string
		do   func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation)
		wait time.Duration // until 1000 tokens pass, after it
	}
	commit := func(n int) func(*ratelimit.RateLimiter, *ratelimit.Reservation) {
		return func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(n, 0) }
	}
	for _, tt := range []step{
		{"as estimated", commit(1000), 8 * s},
		{"less", commit(400), 2 * s},
		{"none", commit(0), 0},
		{"more", commit(1500), 13 * s},
		{"cancelled", func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Cancel() }, 0},
		{"arrived", func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Arrived(time.Now()); r.Commit(1000, 0) }, 10 * s},
		{"less, and others came since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.RecordUsage("m", 500, 0)
			r.Commit(100, 0)
		}, 5 * s},
		{"less after a pause, and others came since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			time.Sleep(7 * s)
			rl.RecordUsage("m", 500, 0)
			r.Commit(0, 0)
		}, 5 * s},
		{"another quota since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
		}, 4 * s},
		{"another burst since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 6000, Burst: 12 * s})
		}, 6 * s},
		{"none any more", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 6000})
		}, 0},
		{"reset", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) { rl.Reset("m") }, 0},
		{"another quota, and it arrives", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
			rl.CanSend("m", 1)
			for range 3 {
				r.Arrived(time.Now())
				time.Sleep(s)
			}
			r.Commit(500, 0)
		}, s},
		{"another quota, it arrives, and is cancelled", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.RecordUsage("m", 0, 0)
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
			rl.CanSend("m", 1)
			r.Arrived(time.Now())
			r.Cancel()
		}, 4 * s},
		{"another quota, and settled", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
			rl.CanSend("m", 1)
			r.Commit(0, 0)
		}, 4 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 6000, Burst: 10 * s})
				rl.CanSend("m", 1)
				r, d := rl.Reserve("m", 1000, 0)
				if r == nil {
					t.Fatal(d)
				}
				time.Sleep(2 * s)
				tt.do(rl, r)
				if d := rl.Decide("m", 1000); d.RetryAfter != tt.wait {
					t.Errorf("%+v, want to wait for %v", d, tt.wait)
				}
				r.Cancel()
			})
		})
	}
}

// Waiters are served when the pace lets them, in order.
func TestPaceServesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 120, Burst: time.Second})
		start := time.Now()
		type served struct {
			who int
			at  time.Duration
		}
		order := make(chan served, 20)
		for i := range 20 {
			go func() {
				r, err := rl.Acquire(t.Context(), "m", 1, 1)
				if err != nil {
					t.Error(err)
				}
				order <- served{i, time.Since(start)}
				r.Commit(1, 1)
			}()
			synctest.Wait()
		}
		for i := range 20 {
			want := served{i, time.Duration(max(i-1, 0)) * time.Second / 2}
			if got := <-order; got != want {
				t.Errorf("%+v was served, want %+v", got, want)
			}
		}
	})
}

// What is not spread costs nothing more, and what is allocates no more.
func TestPaceDoesNotAllocate(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1_000_000_000, MaxTPM: 1_000_000_000, Burst: time.Second})
	for range 10_000 {
		rl.RecordUsage("m", 1, 1)
	}
	if n := testing.AllocsPerRun(1000, func() { rl.CanSend("m", 1) }); n != 0 {
		t.Errorf("CanSend: %v allocations", n)
	}
	slow := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 60, Burst: 1})
	slow.RecordUsage("m", 1, 1)
	if n := testing.AllocsPerRun(1000, func() {
		if slow.Decide("m", 1).Allowed {
			t.Error("allowed")
		}
	}); n != 0 {
		t.Errorf("a denial: %v allocations", n)
	}
}

func ExampleModelQuota_burst() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: "/dev/null/none", // nothing is saved
		Quotas: map[string]ratelimit.ModelQuota{
			"gpt-4o": {MaxRPM: 60, Burst: 2 * time.Second},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d := rl.Decide("gpt-4o", 0)
		fmt.Println(d.Allowed, d.RetryAfter.Round(time.Second), d.Reason)
		rl.RecordUsage("gpt-4o", 500, 100)
	}
	// Output:
	// true 0s within the quota
	// true 0s within the quota
	// false 1s pace: requests are spread over the minute, and the burst is used up
}
