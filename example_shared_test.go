//go:build !nosqlite

// Examples: one quota of all processes.

package ratelimit_test

import (
	"fmt"
	"log"
	"path/filepath"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Two limiters of one file are one, be they in one process or in two.
func ExampleConfig_shared() {
	path := filepath.Join(tempDir(), "ratelimits.db")
	open := func() *ratelimit.RateLimiter {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			Backend:  "sqlite",
			FilePath: path,
			Shared:   true,
			Quotas:   map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 3}},
		})
		if err != nil {
			log.Fatal(err)
		}
		return rl
	}
	server, worker := open(), open()
	defer server.Close()
	defer worker.Close()

	for _, rl := range []*ratelimit.RateLimiter{server, worker, server, worker} {
		reservation, d := rl.Reserve("gpt-4o", 200, 100)
		fmt.Println(d.Code)
		reservation.Commit(200, 80)
	}
	fmt.Println(server.Stats("gpt-4o").TPM, worker.Stats("gpt-4o").TPM)
	// Output:
	// ok
	// ok
	// ok
	// rpm_exceeded
	// 840 840
}

// As long as the database cannot be used, decisions go on in memory, and Err says why.
func ExampleRateLimiter_Err() {
	rl, err := ratelimit.NewWithSQLiteConfig(filepath.Join(tempDir(), "ratelimits.db"), ratelimit.Config{
		Shared:  true,
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rl.Close()
	fmt.Println(rl.Err())
	// Output: <nil>
}
