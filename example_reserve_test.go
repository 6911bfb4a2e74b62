// Examples: reservations.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// limiterFor is a limiter for one model.
func limiterFor(model string, quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{model: quota},
	})
	if err != nil {
		log.Fatal(err)
	}
	return rl
}

// Reserve before the call, settle after it.
func ExampleRateLimiter_Reserve() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxTPM: 1000})

	reservation, d := rl.Reserve("gpt-4o", 400, 500)
	if !d.Allowed {
		log.Fatal(d.Reason)
	}
	fmt.Println("before the call:", rl.Stats("gpt-4o").TPM)
	_, outputTokens := call("…")
	reservation.Commit(400, outputTokens)
	fmt.Println("after the call:", rl.Stats("gpt-4o").TPM)

	_, d = rl.Reserve("gpt-4o", 400, 500)
	fmt.Println(d.Allowed, d.Code)
	// Output:
	// before the call: 900
	// after the call: 420
	// false tpm_exceeded
}

// Many goroutines share a quota: each takes its turn.
func ExampleRateLimiter_Acquire() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxInFlight: 2})
	ctx := context.Background()

	var wg sync.WaitGroup
	var atOnce, most atomic.Int32
	for range 20 {
		wg.Go(func() {
			reservation, err := rl.Acquire(ctx, "gpt-4o", 400, 500)
			if err != nil {
				log.Print(err)
				return
			}
			if n := atOnce.Add(1); n > most.Load() {
				most.Store(n)
			}
			promptTokens, outputTokens := call("…")
			atOnce.Add(-1)
			reservation.Commit(promptTokens, outputTokens)
		})
	}
	wg.Wait()
	fmt.Println(rl.Stats("gpt-4o").RPM, "calls, at most two at once:", most.Load() <= 2)
	// Output: 20 calls, at most two at once: true
}

// Do waits, calls and settles.
func ExampleRateLimiter_Do() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1000})
	estimate := ratelimit.Request{Model: "gpt-4o", PromptTokens: 400, OutputTokens: 500}
	err := rl.Do(context.Background(), estimate, func(ctx context.Context) (ratelimit.Usage, error) {
		promptTokens, outputTokens := call("a prompt of thirty characters.")
		return ratelimit.Usage{PromptTokens: promptTokens, OutputTokens: outputTokens}, nil
	})
	fmt.Println(err, rl.Stats("gpt-4o").TPM)

	err = rl.Do(context.Background(), estimate, func(ctx context.Context) (ratelimit.Usage, error) {
		return ratelimit.Usage{}, fmt.Errorf("dial: %w", ratelimit.ErrNotSent)
	})
	fmt.Println(err, rl.Stats("gpt-4o").TPM)
	// Output:
	// <nil> 27
	// dial: call was not sent 27
}

// A judge beside a writer: both calls have room, or none is charged.
func ExampleRateLimiter_ReserveAll() {
	rl := limiterFor("writer", ratelimit.ModelQuota{MaxRPM: 10})
	rl.SetQuota("judge", ratelimit.ModelQuota{MaxRPM: 1})
	both := []ratelimit.Request{{Model: "writer", PromptTokens: 500}, {Model: "judge", PromptTokens: 900}}

	reservations, d := rl.ReserveAll(both...)
	fmt.Println(d.Allowed, len(reservations))
	reservations[0].Commit(480, 210)
	reservations[1].Commit(905, 3)

	_, d = rl.ReserveAll(both...)
	fmt.Println(d.Allowed, d.Model, d.Code, rl.Stats("writer").RPM)
	// Output:
	// true 2
	// false judge rpm_exceeded 1
}

// An organisation's budget beside the model's.
func ExampleRateLimiter_AcquireAll() {
	rl := limiterFor("claude-sonnet-4", ratelimit.ModelQuota{MaxRPM: 50})
	rl.SetQuota("organisation", ratelimit.ModelQuota{MaxTPD: 1_000_000})

	reservations, err := rl.AcquireAll(context.Background(),
		ratelimit.Request{Model: "claude-sonnet-4", PromptTokens: 900, OutputTokens: 100},
		ratelimit.Request{Model: "organisation", PromptTokens: 900, OutputTokens: 100})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range reservations {
		r.Commit(900, 40)
	}
	fmt.Println(rl.Stats("organisation").TPD, "of", rl.Stats("organisation").MaxTPD)
	// Output: 940 of 1000000
}

// Input and output limited apart.
func ExampleRateLimiter_DecideRequest() {
	rl := limiterFor("claude-sonnet-4", ratelimit.ModelQuota{MaxRPM: 1000, MaxITPM: 2_000_000, MaxOTPM: 400_000})
	rl.RecordUsage("claude-sonnet-4", 10_000, 399_000)
	d := rl.DecideRequest(ratelimit.Request{Model: "claude-sonnet-4", PromptTokens: 5000, OutputTokens: 2000})
	fmt.Println(d.Allowed, d.Code)
	fmt.Println(d.Stats.ITPM, "of", d.Stats.MaxITPM, "in,", d.Stats.OTPM, "of", d.Stats.MaxOTPM, "out")
	// Output:
	// false otpm_exceeded
	// 10000 of 2000000 in, 399000 of 400000 out
}

// The provider said when to come again.
func ExampleRateLimiter_Cooldown() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 500})
	retryAfter := 20 * time.Second // from the header of a 429

	rl.Cooldown("gpt-4o", time.Now().Add(retryAfter))
	d := rl.Decide("gpt-4o", 100)
	fmt.Println(d.Allowed, d.Code, d.RetryAfter.Round(time.Second))
	// Output: false cooldown 20s
}

func ExampleRateLimiter_QuotaFor() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath:      filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:        map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}},
		MatchVersions: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	name, quota, ok := rl.QuotaFor("openai/gpt-4o-2024-08-06")
	fmt.Println(name, quota.MaxRPM, ok)
	_, _, ok = rl.QuotaFor("gpt-4o-mini")
	fmt.Println(ok)
	// Output:
	// gpt-4o 500 true
	// false
}

// The provider counted the call when it answered, not when it was reserved.
func ExampleReservation_Arrived() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 500})
	reservation, _ := rl.Reserve("gpt-4o", 400, 500)
	// … the request is written, the headers of the response come …
	reservation.Arrived(time.Now())
	reservation.Commit(400, 120)
	fmt.Println(rl.Stats("gpt-4o").TPM)
	// Output: 520
}

func ExampleReservation_Cancel() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 1})
	reservation, _ := rl.Reserve("gpt-4o", 400, 500)
	if err := errors.New("no connection"); err != nil {
		reservation.Cancel() // nothing was sent
	}
	fmt.Println(rl.CanSend("gpt-4o", 900))
	// Output: true
}
