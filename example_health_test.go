package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

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
