package redisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

// Every machine runs this. Together they stay within the quota.
func Example() {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 []string{"redis.internal:6379"},
		ContextTimeoutEnabled: true,
	})
	defer client.Close()
	store, err := redisstore.New(context.Background(), client, redisstore.Options{Prefix: "acme-prod"})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Store:   store,
		Quotas:  map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxTPM: 200_000}},
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()

	call, decision := limiter.Reserve("gpt-4o", 1_200, 400)
	if call == nil {
		fmt.Println("wait for", decision.RetryAfter)
		return
	}
	// Call the provider, and say what it took.
	call.Commit(1_180, 310)
}
