// Deadlines of those who wait: what makes it impossible to pass in time ends the wait at once,
// wherever in the line it is, and the error says what it was. One that waits for open calls is
// refused at once only if it could not pass in time even if all that is open were given back.

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
	}{
		{"a cooldown", ratelimit.ModelQuota{MaxTPM: 100}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.Cooldown("m", time.Now().Add(59*time.Second))
		}, ratelimit.DecisionCooldown},
		{"a smaller quota", ratelimit.ModelQuota{MaxTPM: 100}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 1})
		}, ratelimit.DecisionRPDLimit},
		{"a charge", ratelimit.ModelQuota{MaxTPM: 100}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.RecordUsage("m", 91, 0)
		}, ratelimit.DecisionTPMLimit},
		{"a charge of the day", ratelimit.ModelQuota{MaxTPM: 100, MaxTPD: 200}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.RecordUsage("m", 100, 0)
		}, ratelimit.DecisionTPDLimit},
		{"a commit of more than was estimated", ratelimit.ModelQuota{MaxTPM: 200}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			rl.RecordUsage("m", 150, 0)
			time.Sleep(30 * time.Second)
			r, _ := rl.Reserve("m", 50, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(191, 0) }, ratelimit.DecisionTPMLimit},
		{"a commit of as much as was estimated", ratelimit.ModelQuota{MaxTPM: 100}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			r, _ := rl.Reserve("m", 95, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(95, 0) }, ratelimit.DecisionTPMLimit},
		{"a commit of less than was estimated", ratelimit.ModelQuota{MaxTPM: 100}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			r, _ := rl.Reserve("m", 95, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(0, 91) }, ratelimit.DecisionTPMLimit},
		{"the end of what fills the bucket", ratelimit.ModelQuota{MaxTPM: 100, Burst: time.Second}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			r, _ := rl.Reserve("m", 90, 0)
			return r
		}, func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(90, 0) }, ratelimit.DecisionTPMLimit},
		{"a charge that fills the bucket", ratelimit.ModelQuota{MaxTPM: 100, Burst: 10 * time.Second}, charged, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.RecordUsage("m", 30, 0)
		}, ratelimit.DecisionTPMLimit},
		{"an observation", ratelimit.ModelQuota{MaxTPM: 200}, func(rl *ratelimit.RateLimiter) *ratelimit.Reservation {
			rl.RecordUsage("m", 195, 0)
			time.Sleep(15 * time.Second)
			return nil
		}, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.Observe("m", ratelimit.ProviderLimits{
				TPM: ratelimit.ProviderLimit{HasRemaining: true}, Uncounted: ratelimit.Usage{PromptTokens: 195}, // all of it is of others
			})
		}, ratelimit.DecisionTPMLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onSharers(t, tt.quota, func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration) {
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
				if took := time.Since(began); took > late {
					t.Errorf("told after %v", took)
				}
				if n := rl.Stats("m").Waiting; n != 1 {
					t.Errorf("%d wait, want the patient one", n)
				}
			})
		})
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

// onSharers is onPairs, and for limiters that share a quota also with the one that waits as the
// other, which by tells.
func onSharers(t *testing.T, q ratelimit.ModelQuota, run func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration)) {
	cfg := ratelimit.Config{Quotas: quotas{"m": q, "free": {MaxRPM: 1000}}}
	onPairs(t, cfg, run)
	t.Run("by itself", func(t *testing.T) {
		onKinds(t, func(t *testing.T, p *place) {
			if p.kind != alone { // of which the pair is one
				rl := p.open(t, cfg)
				run(t, rl, rl, 0)
			}
		})
	})
}

// waysToWait are the calls that wait for 10 input and 10 output tokens of m, or 10 of input.
var waysToWait = map[string]func(context.Context, *ratelimit.RateLimiter) error{
	"Acquire": func(ctx context.Context, rl *ratelimit.RateLimiter) error {
		_, err := rl.Acquire(ctx, "m", 10, 10)
		return err
	},
	"AcquireAll": func(ctx context.Context, rl *ratelimit.RateLimiter) error {
		_, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "free"}, ratelimit.Request{Model: "m", PromptTokens: 10, OutputTokens: 10})
		return err
	},
	"WaitForCapacity": func(ctx context.Context, rl *ratelimit.RateLimiter) error { return rl.WaitForCapacity(ctx, "m", 10) },
	"Do": func(ctx context.Context, rl *ratelimit.RateLimiter) error {
		return rl.Do(ctx, ratelimit.Request{Model: "m", PromptTokens: 10, OutputTokens: 10}, func(context.Context) (ratelimit.Usage, error) {
			return ratelimit.Usage{}, nil
		})
	},
}

// arrive tells that the answer to a call has begun.
func arrive(r *ratelimit.Reservation) { r.Arrived(time.Now()) }

// reserveArrived opens a call whose answer has begun.
func reserveArrived(t *testing.T, rl *ratelimit.RateLimiter) {
	r := reserve(t, rl, "m", 50, 40)
	time.Sleep(10 * time.Millisecond) // a shared limiter tells others of no arrival at the same instant
	arrive(r)
}

func TestWaitsForWhatOpenCallsMayGiveBack(t *testing.T) {
	t.Parallel()
	// A waiter is served, refused as soon as it cannot pass, or its context ends.
	const patience, atOnce, inVain = 2 * time.Second, time.Duration(-1), time.Duration(-2)
	tests := []struct {
		name  string
		quota ratelimit.ModelQuota
		// before charges what is there for good; the open call of 50 input and 40 output tokens
		// follows.
		before func(t *testing.T, rl *ratelimit.RateLimiter)
		end    func(r *ratelimit.Reservation) // after a second
		// passes is when the waiter passes; else fails is when it is refused, or its context ends.
		passes time.Duration
		fails  time.Duration
	}{
		{"requests", ratelimit.ModelQuota{MaxRPM: 1}, nil, (*ratelimit.Reservation).Cancel, time.Second, 0},
		{"requests of the day", ratelimit.ModelQuota{MaxRPD: 1}, nil, (*ratelimit.Reservation).Cancel, time.Second, 0},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 90}, nil, func(r *ratelimit.Reservation) { r.Commit(50, 0) }, time.Second, 0},
		{"tokens of the day", ratelimit.ModelQuota{MaxTPD: 90}, nil, func(r *ratelimit.Reservation) { r.Commit(50, 0) }, time.Second, 0},
		{"input", ratelimit.ModelQuota{MaxITPM: 50}, nil, func(r *ratelimit.Reservation) { r.Commit(40, 1) }, time.Second, 0},
		{"a burst", ratelimit.ModelQuota{MaxTPM: 90, Burst: time.Second}, nil, (*ratelimit.Reservation).Cancel, time.Second, 0},
		{"calls in flight", ratelimit.ModelQuota{MaxInFlight: 1}, nil, func(r *ratelimit.Reservation) { r.Commit(50, 40) }, time.Second, 0},
		{"less than is needed", ratelimit.ModelQuota{MaxTPM: 90}, nil, func(r *ratelimit.Reservation) { r.Commit(50, 35) }, atOnce, time.Second},
		{"nothing", ratelimit.ModelQuota{MaxRPM: 1}, nil, func(r *ratelimit.Reservation) { r.Commit(0, 0) }, atOnce, time.Second},
		{"a request whose call has arrived", ratelimit.ModelQuota{MaxRPM: 1}, reserveArrived, nil, atOnce, 0},
		{"a request of the day whose call has arrived", ratelimit.ModelQuota{MaxRPD: 1}, reserveArrived, nil, atOnce, 0},
		{"a request that is paced, whose call has arrived", ratelimit.ModelQuota{MaxRPM: 1, Burst: time.Second}, reserveArrived, nil, atOnce, 0},
		{"a request, until its call arrives", ratelimit.ModelQuota{MaxRPM: 1}, nil, arrive, atOnce, time.Second},
		{"a request that is paced, until its call arrives", ratelimit.ModelQuota{MaxRPM: 1, Burst: time.Second}, nil, arrive, atOnce, time.Second},
		{"tokens of a call that has arrived", ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 90}, nil, func(r *ratelimit.Reservation) {
			arrive(r)
			time.Sleep(500 * time.Millisecond)
			r.Commit(50, 0)
		}, 1500 * time.Millisecond, 0},
		{"too little is open", ratelimit.ModelQuota{MaxTPM: 185}, func(t *testing.T, rl *ratelimit.RateLimiter) {
			rl.RecordUsage("m", 90, 0)
			reserve(t, rl, "m", 0, 0)
			rl.RecordUsage("m", 88, 0)
		}, nil, atOnce, 0},
		{"a cooldown is not given back", ratelimit.ModelQuota{MaxTPM: 200}, func(t *testing.T, rl *ratelimit.RateLimiter) {
			reserve(t, rl, "m", 1, 1)
			rl.Cooldown("m", time.Now().Add(3*time.Second))
		}, nil, atOnce, 0},
		{"what is over a minute old may not come back", ratelimit.ModelQuota{MaxTPM: 90}, func(t *testing.T, rl *ratelimit.RateLimiter) {
			reserve(t, rl, "m", 90, 0)
			time.Sleep(time.Minute + 10*time.Second)
			rl.RecordUsage("m", 89, 0)
		}, nil, inVain, patience},
		{"what a reset has forgotten may not come back", ratelimit.ModelQuota{MaxTPM: 90}, func(t *testing.T, rl *ratelimit.RateLimiter) {
			reserve(t, rl, "m", 90, 0)
			rl.Reset("m")
			rl.RecordUsage("m", 89, 0)
		}, nil, inVain, patience},
	}
	for _, tt := range tests {
		for way, wait := range waysToWait {
			t.Run(tt.name+" "+way, func(t *testing.T) {
				onSharers(t, tt.quota, func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration) {
					if tt.before != nil {
						tt.before(t, other)
					} else {
						r := reserve(t, other, "m", 50, 40)
						time.AfterFunc(time.Second, func() { tt.end(r) })
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					began := time.Now()
					err := wait(ctx, rl)
					want := max(tt.passes, 0) + tt.fails
					slow := time.Since(began) - want
					var limited *ratelimit.LimitError
					switch {
					case way == "WaitForCapacity" && tt.name == "less than is needed" && err == nil: // it needs less
					case slow < 0 || slow > late:
						t.Errorf("%v after %v, want %v", err, time.Since(began), want)
					case tt.passes >= 0 && err != nil:
						t.Error(err)
					case tt.passes == inVain && err != context.DeadlineExceeded:
						t.Errorf("error is %v, want that of the context", err)
					case tt.passes == atOnce && (!errors.As(err, &limited) || !errors.Is(err, context.DeadlineExceeded)):
						t.Errorf("error is %v, want a refusal", err)
					}
				})
			})
		}
	}
}

// RetryAfter is the wait if nothing is given back, also where a waiter hopes for that.
func TestRetryAfterIgnoresWhatMayBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		reserve(t, rl, "m", 1, 1)
		if d := rl.Decide("m", 1); d.RetryAfter != time.Minute+1 {
			t.Errorf("%+v", d)
		}
	})
}
