package pagetest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// pictured is the moment of the picture.
var pictured = time.Date(2026, time.November, 24, 10, 42, 7, 0, time.UTC)

// busyService returns a limiter with models in different states, at the moment pictured. It must
// run in a bubble; end lets go of those that wait.
func busyService(t *testing.T) (rl *ratelimit.RateLimiter, end func()) {
	t.Helper()
	time.Sleep(time.Until(pictured.Add(-5 * time.Minute)))
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI, ratelimit.ProviderAnthropic, ratelimit.ProviderGemini},
		Tiers: map[ratelimit.Provider]string{
			ratelimit.ProviderOpenAI: "build", ratelimit.ProviderAnthropic: "start", ratelimit.ProviderGemini: "free",
		},
		Quotas: map[string]ratelimit.ModelQuota{
			"local/*": {MaxInFlight: 8}, "pool/llama-4": poolQuota,
			"gemini-3.6-flash": {MaxRPD: 20, DayZone: "America/Los_Angeles"},
		},
		Pools: map[string]ratelimit.Pool{
			"product": {Models: []string{"gpt-6-*"}, Quota: ratelimit.ModelQuota{MaxRPM: 800, MaxSpendPerDay: money.USD(12)}},
		},
		Classes: map[string]ratelimit.Class{"people": {Weight: 3}, "batch": {}},
		Prices:  map[string]money.Price{"gpt-6-*": {Input: money.USD(2), Output: money.USD(8)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var line sync.WaitGroup
	shared := &pool{rl: rl, model: "pool/llama-4", perSecond: 14, inFlight: 24}
	ended := shared.work(ctx, t, 30)
	wait := func(model string, prompt, output int) {
		class := "batch"
		if prompt > 6_000 {
			class = "people"
		}
		line.Go(func() { rl.Acquire(ratelimit.WithClass(ctx, class), model, prompt, output) })
		synctest.Wait()
	}
	// Eight calls to the local model, five of which the program has forgotten.
	hold(t, rl, "local/qwen3-30b", 5, 2_000, 1_000)
	before(3 * time.Minute)
	use(t, rl, "gemini-3.6-flash", 20, 4_000, 700)
	before(50 * time.Second)
	rl.Reserve("gemini-3.6-flash", 4_000, 700) // is refused
	use(t, rl, "gpt-6-sol", 140, 4_100, 900)
	use(t, rl, "claude-opus-5-5", 310, 3_200, 800)
	use(t, rl, "claude-sonnet-5-5", 212, 7_900, 640)
	before(31 * time.Second)
	use(t, rl, "gpt-6-luna", 96, 6_000, 1_500)
	wait("gpt-6-sol", 380_000, 20_000)
	before(24 * time.Second)
	wait("gpt-6-sol", 6_200, 2_000)
	hold(t, rl, "local/qwen3-30b", 3, 2_000, 1_000)
	before(12 * time.Second)
	rl.CooldownFor("claude-opus-5-5", 30*time.Second, ratelimit.CauseRateLimited)
	rl.Reserve("claude-opus-5-5", 3_200, 800)
	for range 12 {
		wait("gpt-6-sol", 5_000, 2_000)
	}
	wait("local/qwen3-30b", 9_000, 1_000)
	before(4 * time.Second)
	hold(t, rl, "gpt-6-luna", 34, 6_400, 2_000)
	hold(t, rl, "claude-sonnet-5-5", 9, 8_000, 4_000)
	rl.Observe("gpt-6-luna", ratelimit.ProviderLimits{
		TPM: ratelimit.ProviderLimit{Limit: 2_000_000, Remaining: 620_000, HasRemaining: true},
	})
	before(0)
	return rl, func() {
		cancel()
		line.Wait()
		ended()
	}
}

// before sleeps until some time before the moment pictured.
func before(d time.Duration) { time.Sleep(time.Until(pictured.Add(-d))) }

// use makes calls that have ended.
func use(t *testing.T, rl *ratelimit.RateLimiter, model string, calls, prompt, output int) {
	for range calls {
		r, d := rl.Reserve(model, prompt, output)
		if !d.Allowed {
			t.Fatalf("%s: %s", model, d.Reason)
		}
		r.Commit(prompt, output)
	}
}

// open keeps the reservations of hold from being collected.
var open []*ratelimit.Reservation

// hold makes calls that go on.
func hold(t *testing.T, rl *ratelimit.RateLimiter, model string, calls, prompt, output int) {
	for range calls {
		r, d := rl.Reserve(model, prompt, output)
		if !d.Allowed {
			t.Fatalf("%s: %s", model, d.Reason)
		}
		open = append(open, r)
	}
}
