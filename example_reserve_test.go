// Examples: reservations and what is told of them, explanations, and the health of a limiter.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// exampleTraceKey is the key of a trace's name in a context.
type exampleTraceKey struct{}

// traced prints the events of calls, each with the trace that its context belongs to.
type traced struct{}

func (traced) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	fmt.Println(ctx.Value(exampleTraceKey{}), e.Kind, e.Model, e.Settled.PromptTokens+e.Settled.OutputTokens)
}

// The events of a reservation have the context with which it was made, also when it is settled.
func ExampleRateLimiter_ReserveContext() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Events: traced{},
		Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {MaxTPM: 30_000}, "team": {MaxTPM: 100_000}},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.WithValue(context.Background(), exampleTraceKey{}, "trace 7:")
	rs, d := rl.ReserveContext(ctx,
		ratelimit.Request{Model: "gpt-4o", PromptTokens: 900, OutputTokens: 100},
		ratelimit.Request{Model: "team", PromptTokens: 900, OutputTokens: 100})
	if !d.Allowed {
		fmt.Println(d.Reason)
		return
	}
	for _, r := range rs {
		r.Commit(850, 40)
	}
	// Output:
	// trace 7: admitted gpt-4o 0
	// trace 7: admitted team 0
	// trace 7: settled gpt-4o 890
	// trace 7: settled team 890
}

// refusals prints what providers refused.
type refusals struct{}

func (refusals) HandleEvent(_ context.Context, e *ratelimit.Event) {
	if e.Kind == ratelimit.EventProviderRefused {
		fmt.Println(e.Model, "answered", e.Status, e.Problem, "again in", e.RetryAfter)
	}
}

// A client that calls the provider itself says what the provider refused.
func ExampleRateLimiter_ObserveRefusal() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: tempDir() + "/state.yaml", Events: refusals{}})
	if err != nil {
		panic(err)
	}
	rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{
		Model: "gpt-4o", Status: 429, Problem: "rate_limited", RetryAfter: 2 * time.Second,
	})
	rl.CooldownFor("gpt-4o", 2*time.Second, ratelimit.CauseRateLimited)
	// Output:
	// gpt-4o answered 429 rate_limited again in 2s
}

// The provider said that the day is used up: all callers learn it.
func ExampleRateLimiter_CooldownFor() {
	rl := limiterFor("gemini-2.5-pro", ratelimit.ModelQuota{MaxRPM: 5})
	rl.CooldownFor("gemini-2.5-pro", 8*time.Hour, ratelimit.CauseDailyQuota)

	d := rl.Decide("gemini-2.5-pro", 100)
	fmt.Println(d.Code, d.Cause, d.RetryAfter.Round(time.Hour))
	fmt.Println(d.Reason)
	// Output:
	// cooldown daily_quota 8h0m0s
	// the model is in a cooldown: the provider said that the day's quota is used up
}

// Explain says in lines for a person why a model waits.
func ExampleRateLimiter_Explain() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 20_000, MaxInFlight: 8})
	rl.Reserve("gpt-4o", 16_000, 852)
	rl.Observe("gpt-4o", ratelimit.ProviderLimits{
		TPM: ratelimit.ProviderLimit{Limit: 20_000, Remaining: 0, HasRemaining: true},
	})

	e := rl.Explain("gpt-4o")
	lines := strings.Split(e.String(), "\n")
	fmt.Println(strings.Join(lines[:4], "\n"))
	tpm := e.Limits[2]
	fmt.Println(tpm.Limit, tpm.Used, "+", tpm.External, "of", tpm.Max, "left", tpm.Left)
	// Output:
	// "gpt-4o" waits: the provider reports fewer tokens per minute left
	//   quota: its own, set by the program
	//   calls in flight: 1 of 8 used
	//   requests per minute: 1 of 500 used
	// max_tpm 16852 + 3148 of 20000 left 0
}

// Inside Do the call tells when the provider got the request.
func ExampleReservationFrom() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 10})
	estimate := ratelimit.Request{Model: "gpt-4o", PromptTokens: 400, OutputTokens: 500}
	err := rl.Do(context.Background(), estimate, func(ctx context.Context) (ratelimit.Usage, error) {
		promptTokens, outputTokens := call("…")
		ratelimit.ReservationFrom(ctx).Arrived(time.Now())
		return ratelimit.Usage{PromptTokens: promptTokens, OutputTokens: outputTokens}, nil
	})
	fmt.Println(err, rl.Stats("gpt-4o").RPM)
	// Output: <nil> 1
}

// Quotas and decisions have the keys of the YAML file, and durations with their unit.
func ExampleModelQuota_MarshalJSON() {
	var quota ratelimit.ModelQuota
	if err := json.Unmarshal([]byte(`{"max_rpm": 60, "burst": "10s"}`), &quota); err != nil {
		fmt.Println(err)
	}
	fmt.Println(quota.MaxRPM, quota.Burst)

	text, err := json.Marshal(quota)
	fmt.Println(string(text), err)
	// Output:
	// 60 10s
	// {"max_rpm":60,"burst":"10s"} <nil>
}

// A readiness probe fails by Err. Warnings go to people: they never take a process out.
func ExampleRateLimiter_Health() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 1})
	ready := func(w http.ResponseWriter, r *http.Request) {
		if err := rl.Health().Err; err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	for range 100 { // a loop that does not look at RetryAfter
		rl.Reserve("gpt-4o", 10, 10)
	}

	probe := httptest.NewRecorder()
	ready(probe, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(probe.Code)
	for _, warning := range rl.Health().Warnings {
		var denials *ratelimit.DenialsError
		if errors.As(warning, &denials) {
			fmt.Println(denials.Model, denials.Refused, "of", denials.Calls, denials.Code)
		}
	}
	// Output:
	// 200
	// gpt-4o 99 of 100 rpm_exceeded
}

// Explain tells what a stuck service waits for: here for a call that was never settled.
func ExampleWaiter() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxInFlight: 1})
	leaked, _ := rl.Reserve("gpt-4o", 10, 10)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		rl.Acquire(ctx, "gpt-4o", 90_000, 800)
	}()
	for rl.Stats("gpt-4o").Waiting == 0 {
		time.Sleep(time.Millisecond)
	}

	e := rl.Explain("gpt-4o")
	for _, w := range e.Line {
		fmt.Println("waits with", w.PromptTokens, "and", w.OutputTokens, "tokens")
	}
	fmt.Println(e.InFlight, "open,", e.OpenOverMinute, "of them for more than a minute")
	cancel()
	<-done
	leaked.Cancel()
	// Output:
	// waits with 90000 and 800 tokens
	// 1 open, 0 of them for more than a minute
}

// shortText is a text handler that shows only some of the attributes.
func shortText() *slog.TextHandler {
	return slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.LevelKey, "event", "model", "code", "status", "problem", "allowed":
			return a
		}
		return slog.Attr{}
	}})
}

// Admissions are at the level debug, which this logger does not write.
func ExampleLogEvents() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 1}},
		Events: ratelimit.LogEvents(slog.New(shortText()), ratelimit.LogOptions{}),
	})
	if err != nil {
		panic(err)
	}
	defer rl.Close()
	for range 50 {
		rl.ReserveContext(context.Background(), ratelimit.Request{Model: "gpt-4o", PromptTokens: 5})
	}
	rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "gpt-4o", Status: 429, Problem: "rate_limited"})
	// Output:
	// level=WARN event=refused model=gpt-4o code=rpm_exceeded
	// level=WARN event=provider_refused model=gpt-4o status=429 problem=rate_limited
}

// A decision is a group of attributes.
func ExampleDecision_LogValue() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxTPM: 1000})
	rl.RecordUsage("gpt-4o", 900, 50)
	d := rl.Decide("gpt-4o", 100)
	slog.New(shortText()).Info("busy", "d", d)
	// Output:
	// level=INFO d.allowed=false d.code=tpm_exceeded d.model=gpt-4o
}
