//go:build !nosqlite

// Examples: databases and quotas of several processes.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func ExampleNewWithSQLite() {
	rl, err := ratelimit.NewWithSQLite(filepath.Join(tempDir(), "ratelimits.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer rl.Close()
	rl.RecordUsage("gemini-2.5-pro", 1200, 300)
	if err := rl.Persist(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rl.Stats("gemini-2.5-pro").TPM)
	// Output: 1500
}

func ExampleNewWithSQLiteConfig() {
	path := filepath.Join(tempDir(), "ratelimits.db")
	cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"llama": {MaxRPM: 10}}}
	for range 2 { // the second time stands for the next start of the program
		rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
		if err != nil {
			log.Fatal(err)
		}
		if err := rl.Load(); err != nil {
			log.Fatal(err)
		}
		rl.RecordUsage("llama", 10, 10)
		fmt.Println(rl.Stats("llama").RPM)
		if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1
	// 2
}

func ExampleRateLimiter_Close() {
	rl, err := ratelimit.NewWithSQLite(filepath.Join(tempDir(), "ratelimits.db"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rl.Close(), errors.Is(rl.Persist(), ratelimit.ErrClosed))
	// Output: <nil> true
}

func ExampleMigrateYAMLToSQLite() {
	dir := tempDir()
	yamlPath, dbPath := filepath.Join(dir, "ratelimits.yaml"), filepath.Join(dir, "ratelimits.db")
	old, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: yamlPath})
	if err != nil {
		log.Fatal(err)
	}
	old.RecordUsage("gemini-2.5-pro", 1200, 300)
	if err := errors.Join(old.Persist(), ratelimit.MigrateYAMLToSQLite(yamlPath, dbPath)); err != nil {
		log.Fatal(err)
	}

	rl, err := ratelimit.NewWithSQLite(dbPath)
	if err != nil {
		log.Fatal(err)
	}
	defer rl.Close()
	if err := rl.Load(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rl.Stats("gemini-2.5-pro").TPM)
	// Output: 1500
}

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

// Inspect shows a quota that others share, and takes no part in it.
func ExampleInspect() {
	cfg := ratelimit.Config{
		Backend: "sqlite", Shared: true, FilePath: filepath.Join(tempDir(), "ratelimits.db"),
		Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxInFlight: 8}},
	}
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer rl.Close()
	r, _ := rl.Reserve("gpt-4o", 1200, 300)
	defer r.Cancel()

	is, err := ratelimit.Inspect(context.Background(), ratelimit.Config{FilePath: cfg.FilePath})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range is.Models {
		for _, l := range e.Limits {
			fmt.Println(e.Model, l.Limit, l.Used, "of", l.Max)
		}
	}
	for _, p := range is.Processes {
		fmt.Println("a process with", p.InFlight["gpt-4o"], "call in flight,", p.Tokens["gpt-4o"], "tokens")
	}
	// Output:
	// gpt-4o max_in_flight 1 of 8
	// gpt-4o max_rpm 1 of 500
	// a process with 1 call in flight, 1500 tokens
}
