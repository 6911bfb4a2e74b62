// Examples: the calls of the contract, the account, the configuration, and what is saved.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// call stands for the call to the provider.
func call(prompt string) (promptTokens, outputTokens int) { return len(prompt) / 4, 20 }

// Check before the call, record after it.
func Example() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 2}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, prompt := range []string{"one", "two", "three"} {
		if !rl.CanSend("gpt-4o", 500) {
			fmt.Println(prompt, "has to wait")
			continue
		}
		promptTokens, outputTokens := call(prompt)
		rl.RecordUsage("gpt-4o", promptTokens, outputTokens)
		fmt.Println(prompt, "was sent")
	}
	// Output:
	// one was sent
	// two was sent
	// three has to wait
}

func ExampleNew() {
	os.Setenv("CORE_HOME", tempDir())
	rl, err := ratelimit.New() // Gemini's quotas, state in $CORE_HOME/.core/ratelimits.yaml
	if err != nil {
		log.Fatal(err)
	}
	if err := rl.Load(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rl.Stats("gemini-2.5-pro").MaxRPM)
	// Output: 150
}

func ExampleNewWithConfig() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath:  filepath.Join(tempDir(), "ratelimits.yaml"),
		Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic},
		Quotas:    map[string]ratelimit.ModelQuota{"claude-opus-4": {MaxRPM: 1000, MaxTPM: 400_000}},
		Margin:    250 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rl.Stats("claude-opus-4").MaxRPM, rl.Stats("claude-sonnet-4").MaxRPM)
	// Output: 1000 50
}

func ExampleDefaultProfiles() {
	profile := ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI]
	fmt.Println(profile.Models["gpt-4o"].MaxTPM)
	// Output: 30000
}

// exampleLimiter has one model, "gpt-4o", of the given quota.
func exampleLimiter(quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	return limiterFor("gpt-4o", quota)
}

func ExampleRateLimiter_CanSend() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxTPM: 1000})
	rl.RecordUsage("gpt-4o", 600, 100)
	fmt.Println(rl.CanSend("gpt-4o", 300), rl.CanSend("gpt-4o", 301), rl.CanSend("unknown", 301))
	// Output: true false true
}

func ExampleRateLimiter_Decide() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxTPM: 1000})
	rl.RecordUsage("gpt-4o", 600, 100)
	d := rl.Decide("gpt-4o", 301)
	fmt.Println(d.Allowed, d.Code, d.Reason)
	fmt.Println(d.Stats.TPM, "of", d.Stats.MaxTPM, "free again in", d.RetryAfter.Round(time.Minute))

	fmt.Println(rl.Decide("gpt-4o", 1001).Never)
	// Output:
	// false tpm_exceeded tokens per minute are used up
	// 700 of 1000 free again in 1m0s
	// true
}

func ExampleRateLimiter_RecordUsage() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 30_000})
	rl.RecordUsage("gpt-4o", 1200, 340) // as the reply's usage says
	fmt.Println(rl.Stats("gpt-4o").RPM, rl.Stats("gpt-4o").TPM)
	// Output: 1 1540
}

func ExampleRateLimiter_WaitForCapacity() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 1000})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	fmt.Println("there is room:", rl.WaitForCapacity(ctx, "gpt-4o", 500))
	rl.RecordUsage("gpt-4o", 400, 100)

	err := rl.WaitForCapacity(ctx, "gpt-4o", 500)
	fmt.Println("the minute lasts longer than the deadline:", errors.Is(err, context.DeadlineExceeded))

	err = rl.WaitForCapacity(ctx, "gpt-4o", 5000)
	var limit *ratelimit.LimitError
	fmt.Println("larger than the quota:", errors.Is(err, ratelimit.ErrNeverFits), errors.As(err, &limit) && limit.Decision.Never)
	// Output:
	// there is room: <nil>
	// the minute lasts longer than the deadline: true
	// larger than the quota: true true
}

func ExampleRateLimiter_Stats() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 30_000})
	rl.RecordUsage("gpt-4o", 100, 50)
	s := rl.Stats("gpt-4o")
	fmt.Printf("%d/%d requests, %d/%d tokens, %d today\n", s.RPM, s.MaxRPM, s.TPM, s.MaxTPM, s.RPD)
	// Output: 1/500 requests, 150/30000 tokens, 1 today
}

func ExampleRateLimiter_AllStats() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500})
	rl.RecordUsage("llama", 1, 1)
	fmt.Println(len(rl.AllStats()))
	// Output: 2
}

func ExampleRateLimiter_Models() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500})
	rl.RecordUsage("llama", 1, 1)
	for model := range rl.Models() {
		fmt.Println(model)
	}
	// Output:
	// gpt-4o
	// llama
}

func ExampleRateLimiter_Iter() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 30_000})
	rl.RecordUsage("gpt-4o", 100, 50)
	for model, s := range rl.Iter() {
		fmt.Printf("%s: %d/%d RPM, %d/%d TPM\n", model, s.RPM, s.MaxRPM, s.TPM, s.MaxTPM)
	}
	// Output: gpt-4o: 1/500 RPM, 150/30000 TPM
}

func ExampleRateLimiter_SetQuota() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("gpt-4o", 1, 1)
	fmt.Println(rl.CanSend("gpt-4o", 1))
	rl.SetQuota("gpt-4o", ratelimit.ModelQuota{MaxRPM: 2})
	fmt.Println(rl.CanSend("gpt-4o", 1))
	// Output:
	// false
	// true
}

func ExampleRateLimiter_AddProvider() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	rl.AddProvider(ratelimit.ProviderAnthropic)
	fmt.Println(rl.Stats("claude-opus-4").MaxRPM, rl.Stats("gpt-4o").MaxRPM)
	// Output: 50 1
}

func ExampleRateLimiter_Reset() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("gpt-4o", 1, 1)
	rl.Reset("gpt-4o") // Reset("") is for all models
	fmt.Println(rl.Stats("gpt-4o").RPM)
	// Output: 0
}

func ExampleRateLimiter_BackgroundPrune() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	stop := rl.BackgroundPrune(30 * time.Second)
	defer stop()
}

func ExampleRateLimiter_Persist() {
	path := filepath.Join(tempDir(), "ratelimits.yaml")
	open := func() *ratelimit.RateLimiter {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: path})
		if err != nil {
			log.Fatal(err)
		}
		if err := rl.Load(); err != nil {
			log.Fatal(err)
		}
		return rl
	}
	rl := open()
	rl.RecordUsage("gemini-2.5-pro", 1200, 300)
	if err := rl.Persist(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(open().Stats("gemini-2.5-pro").TPM)
	// Output: 1500
}

func ExampleRateLimiter_Load() {
	path := filepath.Join(tempDir(), "ratelimits.yaml")
	if err := os.WriteFile(path, []byte("quotas: {gpt-4o: {max_rpm: -5}}\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: path})
	if err != nil {
		log.Fatal(err)
	}
	err = rl.Load()
	fmt.Println(errors.Is(err, ratelimit.ErrCorruptState), errors.Is(err, ratelimit.ErrInvalidQuota))
	// Output: true true
}

func ExampleCountTokens() {
	n, err := ratelimit.CountTokens(context.Background(), os.Getenv("GEMINI_API_KEY"), "gemini-2.5-pro", "How many tokens is this?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
}

// The program's quota wins over the account's limits, which apply where it leaves one open.
func ExampleRateLimiter_SetAccountQuotas() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI},
		Quotas:    map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 100}},
	})
	if err != nil {
		panic(err)
	}
	rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{ // accountlimits.Sync does this
		"gpt-4o":      {MaxRPM: 5_000, MaxTPM: 800_000},
		"gpt-4o-mini": {MaxRPM: 5_000, MaxTPM: 4_000_000},
	})
	for _, model := range []string{"gpt-4o", "gpt-4o-mini"} {
		_, quota, _ := rl.QuotaFor(model)
		fmt.Println(model, quota.MaxRPM, quota.MaxTPM)
	}
	// Output:
	// gpt-4o 100 800000
	// gpt-4o-mini 5000 4000000
}

// A quota that is taken back gives way to what others say of the model.
func ExampleRateLimiter_RemoveQuota() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 60}},
	})
	if err != nil {
		panic(err)
	}
	rl.SetQuota("gpt-4o", ratelimit.ModelQuota{MaxRPM: 500})
	name, quota, _ := rl.QuotaFor("gpt-4o")
	fmt.Println(name, quota.MaxRPM)
	rl.RemoveQuota("gpt-4o")
	name, quota, _ = rl.QuotaFor("gpt-4o")
	fmt.Println(name, quota.MaxRPM)
	// Output:
	// gpt-4o 500
	// * 60
}

// What a provider reported is forgotten, and the quota before it applies again.
func ExampleRateLimiter_ForgetLearned() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		LearnQuotas: true,
		Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}},
	})
	if err != nil {
		panic(err)
	}
	rl.Observe("gpt-4o", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 60}})
	fmt.Println(rl.Stats("gpt-4o").MaxRPM)
	rl.ForgetLearned("gpt-4o")
	fmt.Println(rl.Stats("gpt-4o").MaxRPM)
	// Output:
	// 60
	// 500
}

// A provider tells with each answer what is left. Here others use the same key.
func ExampleRateLimiter_Observe() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		LearnQuotas: true,
		Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxTPM: 30_000}},
	})
	if err != nil {
		panic(err)
	}
	rl.RecordUsage("gpt-4o", 900, 100)
	rl.Observe("gpt-4o", ratelimit.ProviderLimits{
		RPM: ratelimit.ProviderLimit{Limit: 60, Remaining: 40, HasRemaining: true},
		TPM: ratelimit.ProviderLimit{Limit: 150_000, Remaining: 2_000, HasRemaining: true},
	})
	_, quota, _ := rl.QuotaFor("gpt-4o")
	fmt.Println(quota.MaxRPM, "requests,", quota.MaxTPM, "tokens per minute")
	fmt.Println(rl.Decide("gpt-4o", 3_000).Reason)
	fmt.Println(rl.CanSend("gpt-4o", 2_000))
	// Output:
	// 60 requests, 30000 tokens per minute
	// the provider reports fewer tokens per minute left
	// true
}

// The limiter saves by itself, and the next process goes on from there.
func ExampleAutoPersist() {
	path := filepath.Join(tempDir(), "ratelimits.yaml")
	for process := range 3 {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath:    path,
			Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxTPM: 30_000}},
			AutoPersist: ratelimit.AutoPersist{Delay: time.Second, MaxWait: 5 * time.Second},
			OnError:     func(err error) { log.Print(err) },
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("process", process, "knows of", rl.Stats("gpt-4o").TPM, "tokens")
		rl.RecordUsage("gpt-4o", 1000, 200)
		if err := rl.Close(); err != nil { // writes what is left
			log.Fatal(err)
		}
	}
	// Output:
	// process 0 knows of 0 tokens
	// process 1 knows of 1200 tokens
	// process 2 knows of 2400 tokens
}

// A configuration in YAML. In a program it is a file that os.Open opens.
func ExampleReadConfig() {
	cfg, err := ratelimit.ReadConfig(strings.NewReader(`
file_path: /var/lib/app/ratelimits.yaml
margin: 250ms
auto_persist: {delay: 1s}
quotas:
  gpt-4o: {max_rpm: 500, max_tpm: 30000}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.FilePath, cfg.Margin, cfg.AutoPersist.Delay, cfg.Quotas["gpt-4o"].MaxTPM)

	_, err = ratelimit.ReadConfig(strings.NewReader("file_pth: /tmp/limits.yaml"))
	fmt.Println(err)

	// Output:
	// /var/lib/app/ratelimits.yaml 250ms 1s 30000
	// read config: line 1: file_pth: unknown key
}
