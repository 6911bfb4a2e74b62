package accountlimits_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
)

func ExampleAnthropic_Limits() {
	// A stand-in for Anthropic.
	server := httptest.NewServer(&provider{organization: []string{opus, haiku}})
	defer server.Close()

	account := accountlimits.Anthropic{AdminKey: adminKey, BaseURL: server.URL}
	limits, err := account.Limits(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	haiku := limits["claude-haiku-4-5"]
	fmt.Println(haiku.MaxRPM, "requests,", haiku.MaxITPM, "input tokens,", haiku.MaxOTPM, "output tokens a minute")
	// Output: 50 requests, 50000 input tokens, 10000 output tokens a minute
}

func ExampleOpenAI_Limits() {
	// A stand-in for OpenAI.
	server := httptest.NewServer(&provider{project: []string{
		`{"model": "gpt-5", "max_requests_per_1_minute": 500, "max_tokens_per_1_minute": 500000}`,
	}})
	defer server.Close()

	account := accountlimits.OpenAI{AdminKey: adminKey, Project: "proj_1", BaseURL: server.URL}
	limits, err := account.Limits(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limits["gpt-5"].MaxRPM, "requests,", limits["gpt-5"].MaxTPM, "tokens a minute")
	// Output: 500 requests, 500000 tokens a minute
}

// The free models of OpenRouter share the limits of the account, so a pool has them.
func ExampleOpenRouter_Limits() {
	// A stand-in for OpenRouter.
	server := httptest.NewServer(&provider{free: `{"limit": 50, "remaining": 38, "used": 12}`})
	defer server.Close()

	account := accountlimits.OpenRouter{Key: adminKey, BaseURL: server.URL + "/api"}
	limits, err := account.Limits(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	rl := new(ratelimit.RateLimiter) // yours, of a constructor
	rl.SetPool("openrouter", ratelimit.Pool{
		Models: []string{accountlimits.FreeModels}, Quota: limits[accountlimits.FreeModels],
	})

	rl.RecordUsage("meta-llama/llama-3.2-3b-instruct:free", 100, 50)
	rl.RecordUsage("openai/gpt-oss-120b:free", 100, 50)
	stats := rl.PoolStats("openrouter")
	fmt.Println(stats.RPD, "of", stats.MaxRPD, "requests of the day,", stats.MaxRPM, "a minute")
	// Output: 2 of 50 requests of the day, 20 a minute
}

func ExampleSync() {
	server := httptest.NewServer(&provider{organization: []string{haiku}})
	defer server.Close()
	rl := new(ratelimit.RateLimiter) // yours, of a constructor
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)

	go func() {
		done <- accountlimits.Sync(ctx, rl, time.Hour, accountlimits.Anthropic{AdminKey: adminKey, BaseURL: server.URL})
	}()

	for rl.Stats("claude-haiku-4-5").MaxRPM == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(rl.Stats("claude-haiku-4-5").MaxRPM, "requests a minute")
	cancel()
	fmt.Println(<-done)
	// Output:
	// 50 requests a minute
	// sync account limits: context canceled
}

func ExampleSyncer_Run() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	accountlimits.Syncer{
		Limiter: new(ratelimit.RateLimiter), // yours
		Sources: []accountlimits.Source{accountlimits.OpenAI{Project: "proj_1", BaseURL: server.URL}},
		OnError: func(err error) {
			fmt.Println(strings.ReplaceAll(err.Error(), ": ", ":\n"))
			cancel()
		},
	}.Run(ctx)
	// Output:
	// sync account limits:
	// source 0 (accountlimits.OpenAI):
	// read limits of OpenAI:
	// status 404:
	// 404 page not found
}
