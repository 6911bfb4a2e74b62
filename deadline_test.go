// Deadlines of those who wait: what makes it impossible to pass in time ends the wait at once,
// wherever in the line it is, and the error says what it was.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestWaiterLearnsAtOnceThatItComesTooLate(t *testing.T) {
	const timeout = 50 * time.Second
	tests := []struct {
		name  string
		quota ratelimit.ModelQuota
		// before sets the stage: afterwards 10 tokens of m pass within 50 s, but not now.
		before func(rl *ratelimit.RateLimiter) *ratelimit.Reservation
		event  func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation)
		want   ratelimit.DecisionCode
		local  bool // what happens is not shared
	}{
		{"a cooldown", ratelimit.ModelQuota{MaxTPM: 100}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.Cooldown("m", time.Now().Add(59*time.Second))
		}, ratelimit.DecisionCooldown, false},
		{"a smaller quota", ratelimit.ModelQuota{MaxTPM: 100}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 1})
		}, ratelimit.DecisionRPDLimit, false},
		{"a charge", ratelimit.ModelQuota{MaxTPM: 100}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.RecordUsage("m", 91, 0)
		}, ratelimit.DecisionTPMLimit, false},
		{"a charge of the day", ratelimit.ModelQuota{MaxTPM: 100, MaxTPD: 200}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.RecordUsage("m", 100, 0)
		}, ratelimit.DecisionTPDLimit, false},
		{"a commit of more than was estimated", ratelimit.ModelQuota{MaxTPM: 200}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			rl.RecordUsage("m", 150, 0)
			time.Sleep(30 * time.Second)
			r, _ := rl.Reserve("m", 50, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(191, 0) }, ratelimit.DecisionTPMLimit, false},
		{"a commit of as much as was estimated", ratelimit.ModelQuota{MaxTPM: 100}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			r, _ := rl.Reserve("m", 95, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(95, 0) }, ratelimit.DecisionTPMLimit, false},
		{"a commit of less than was estimated", ratelimit.ModelQuota{MaxTPM: 100}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			r, _ := rl.Reserve("m", 95, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(0, 91) }, ratelimit.DecisionTPMLimit, false},
		{"the end of what fills the bucket", ratelimit.ModelQuota{MaxTPM: 100, Burst: time.Second}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			r, _ := rl.Reserve("m", 90, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(90, 0) }, ratelimit.DecisionTPMLimit, false},
		{"a charge that fills the bucket", ratelimit.ModelQuota{MaxTPM: 100, Burst: 10 * time.Second}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.RecordUsage("m", 30, 0)
		}, ratelimit.DecisionTPMLimit, false},
		{"an observation", ratelimit.ModelQuota{MaxTPM: 200}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			rl.RecordUsage("m", 195, 0)
			time.Sleep(15 * time.Second)
			return nil
		}, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.Observe("m", ratelimit.ProviderLimits{
				TPM: ratelimit.ProviderLimit{HasRemaining: true}, Uncounted: ratelimit.Usage{PromptTokens: 195}, // all of it is of others
			})
		}, ratelimit.DecisionTPMLimit, true},
	}
	for _, tt := range tests {
		for _, how := range sharedness {
			if tt.local && how == "shared, by another" {
				continue
			}
			t.Run(tt.name+" "+how, func(t *testing.T) {
				withPair(t, how, false, tt.quota, func(t *testing.T, rl, other *ratelimit.RateLimiter) {
					r := tt.before(other)
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					waits := []func() error{
						func() error { _, err := rl.Acquire(ctx, "m", 10, 0); return err },
						func() error { return rl.WaitForCapacity(ctx, "m", 10) },
						func() error {
							_, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "free"}, ratelimit.Request{Model: "m", PromptTokens: 10})
							return err
						},
					}
					errs := make(chan error, len(waits))
					for _, wait := range waits {
						go func() { errs <- wait() }()
						time.Sleep(time.Millisecond)
					}
					patient, leave := context.WithCancel(t.Context())
					defer leave()
					go rl.Acquire(patient, "m", 10, 0)
					time.Sleep(time.Millisecond)
					if n := len(errs); n > 0 {
						t.Fatalf("%d do not wait: %v", n, <-errs)
					}
					tt.event(other, r)
					began := time.Now()
					for range waits {
						err := <-errs
						var limited *ratelimit.LimitError
						if !errors.As(err, &limited) || !errors.Is(err, context.DeadlineExceeded) || limited.Decision.Code != tt.want || limited.Model != "m" {
							t.Errorf("error is %v, want that of a deadline, by %s", err, tt.want)
						}
					}
					if late := time.Since(began); late > 0 && how != "shared, by another" || late > sharedHandOver {
						t.Errorf("told after %v", late)
					}
					if n := rl.Stats("m").Waiting; n != 1 {
						t.Errorf("%d wait, want the patient one", n)
					}
				})
			})
		}
	}
}

// charged charges 95 tokens, which leave the minute within 50 seconds.
func charged(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
	r, _ := rl.Reserve("m", 95, 0)
	r.Commit(95, 0)
	time.Sleep(15 * time.Second)
	return r
}

// One that is served charges, and those behind it may come too late by that.
func TestWaitersBehindOneThatIsServedLearnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.RecordUsage("m", 1, 1)
		start := time.Now()
		errs := make(chan error, 3)
		for i, timeout := range []time.Duration{time.Hour, 119 * time.Second, 118 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			go func() {
				r, err := rl.Acquire(ctx, "m", 1, 1)
				r.Commit(1, 1) // until then there is hope
				errs <- fmt.Errorf("%d: %w", i, err)
				if i > 0 && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%d: %v", i, err)
				}
			}()
			synctest.Wait()
		}
		for range cap(errs) {
			<-errs
			if waited := time.Since(start); waited != time.Minute+1 {
				t.Errorf("after %v", waited)
			}
		}
	})
}

// One that waits for a place is looked at when that was to open, and learns then.
func TestWaiterForAPlaceLearnsThatItComesTooLate(t *testing.T) {
	tests := []struct {
		name  string
		event func(rl *ratelimit.RateLimiter)
	}{
		{"the model that would have gone is used", func(rl *ratelimit.RateLimiter) { rl.RecordUsage("a", 1, 1) }},
		{"a call of it begins", func(rl *ratelimit.RateLimiter) { reserve(t, rl, "a", 1, 1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbleWith(t, 2, ratelimit.ModelQuota{MaxRPM: 5}, func(t *testing.T, rl *ratelimit.RateLimiter) {
				rl.SetQuota("own", ratelimit.ModelQuota{MaxRPM: 1})
				rl.RecordUsage("own", 1, 1)
				rl.RecordUsage("a", 1, 1)
				time.Sleep(10 * time.Second)
				rl.RecordUsage("b", 1, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second) // a is idle by then
				defer cancel()
				errs := make(chan error, 3)
				for _, models := range [][]string{{"x"}, {"x"}, {"own", "y"}} {
					go func() {
						_, err := rl.AcquireAll(ctx, requestsFor(models...)...)
						errs <- err
					}()
					synctest.Wait()
				}
				if n := len(errs); n > 0 {
					t.Fatalf("%d do not wait: %v", n, <-errs)
				}
				began := time.Now()
				tt.event(rl)
				for range cap(errs) {
					var limited *ratelimit.LimitError
					if err := <-errs; !errors.As(err, &limited) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 50*time.Second+1 {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				}
			})
		})
	}
}
