// Waits for open calls: one is refused at once only if it could not pass in time even if all that
// is open were given back.

package ratelimit_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// sharedness is how the limiter of a waiter and that of the open call are connected.
var sharedness = []string{"", "shared", "shared, by another"}

// withPair runs a test with two limiters of the same quota: the same one twice, or two that share
// a database, or a log in memory, which is quicker.
func withPair(t *testing.T, how string, inMemory bool, q ratelimit.ModelQuota, test func(t *testing.T, rl, other *ratelimit.RateLimiter)) {
	cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q, "free": {MaxRPM: 1000}}}
	if how != "" && !inMemory {
		needSQLite(t)
		cfg.Backend, cfg.FilePath, cfg.Shared = "sqlite", filepath.Join(t.TempDir(), "state"), true
	}
	synctest.Test(t, func(t *testing.T) {
		log := fakestore.New()
		open := func() *ratelimit.RateLimiter {
			if how != "" && inMemory {
				return overStore(t, log, cfg)
			}
			return newLimiterWith(t, cfg)
		}
		rl := open()
		defer rl.Close()
		other := rl
		if how == "shared, by another" {
			other = open()
			defer other.Close()
		}
		test(t, rl, other)
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
		for _, how := range sharedness {
			for way, wait := range waysToWait {
				t.Run(tt.name+" "+how+" "+way, func(t *testing.T) {
					withPair(t, how, way != "Acquire", tt.quota, func(t *testing.T, rl, other *ratelimit.RateLimiter) {
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
						case slow < 0 || slow > sharedHandOver || how == "" && slow > 0:
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

// 200 callers at once with two seconds of patience, who would use 60 times a 60th of the quota:
// each call that the estimates leave room for gets in, and as the answers come, the others.
func TestColdStartLetsCallsInAsEstimatesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 20_000})
		admitted := make(chan bool, 200)
		began := time.Now()
		for range cap(admitted) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				r, err := rl.Acquire(ctx, "m", 80, 256)
				if err == nil {
					time.Sleep(400 * time.Millisecond)
					r.Commit(80, 253)
				}
				admitted <- err == nil
			}()
		}
		n := 0
		for range cap(admitted) {
			if <-admitted {
				n++
			}
		}
		if n != 60 {
			t.Errorf("%d calls were admitted", n)
		}
		if took := time.Since(began); took > 2400*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}
