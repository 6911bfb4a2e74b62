// Examples: who goes first, and fallback.

package ratelimit_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"path/filepath"
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// classLimiter is a limiter with two classes of calls.
func classLimiter(quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"gpt-4o": quota, "gpt-4o-mini": quota},
		Classes: map[string]ratelimit.Class{
			"interactive": {Ahead: true, ReservePercent: 20},
			"batch":       {},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return rl
}

// A person goes before the batch that came first.
func ExampleWithClass() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	first, _ := rl.Reserve("gpt-4o", 100, 50)
	order := make(chan string)
	wait := func(ctx context.Context, name string) {
		waiting := rl.Stats("gpt-4o").Waiting
		go func() {
			reservation, err := rl.Acquire(ctx, "gpt-4o", 100, 50)
			if err != nil {
				log.Fatal(err)
			}
			order <- name
			reservation.Commit(100, 20)
		}()
		for rl.Stats("gpt-4o").Waiting == waiting {
			time.Sleep(time.Millisecond)
		}
	}
	ctx := context.Background()
	wait(ratelimit.WithClass(ctx, "batch"), "batch")
	wait(ratelimit.WithClass(ctx, "interactive"), "a person")
	first.Commit(100, 20)
	fmt.Println(<-order)
	fmt.Println(<-order)
	// Output:
	// a person
	// batch
}

// Tenants take turns: the one call of the second is served before the other calls of the first.
func ExampleWithFlow() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	first, _ := rl.Reserve("gpt-4o", 100, 50)
	order := make(chan string)
	for i, tenant := range []string{"tenant 1", "tenant 1", "tenant 1", "tenant 2"} {
		ctx := ratelimit.WithFlow(context.Background(), tenant)
		go func() {
			reservation, err := rl.Acquire(ctx, "gpt-4o", 100, 50)
			if err != nil {
				log.Fatal(err)
			}
			order <- tenant
			reservation.Commit(100, 20)
		}()
		for rl.Stats("gpt-4o").Waiting == i {
			time.Sleep(time.Millisecond)
		}
	}
	first.Commit(100, 20)
	for range 4 {
		fmt.Println(<-order)
	}
	// Output:
	// tenant 1
	// tenant 2
	// tenant 1
	// tenant 1
}

// A class keeps a share of the quota free for itself while it is active.
func ExampleClass() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 10})
	rl.ReserveAny(ratelimit.Request{Model: "gpt-4o", Class: "interactive"}) // there is a person
	admitted := 0
	for {
		reservation, _ := rl.ReserveAny(ratelimit.Request{Model: "gpt-4o", Class: "batch"})
		if reservation == nil {
			break
		}
		defer reservation.Cancel()
		admitted++
	}
	_, d := rl.ReserveAny(ratelimit.Request{Model: "gpt-4o", Class: "interactive"})
	fmt.Println(admitted, d.Allowed)
	// Output: 8 true
}

// The classes in force are those of Config.Classes, or of the last SetClasses.
func ExampleRateLimiter_Classes() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 10})
	fmt.Println(rl.Classes()["interactive"].ReservePercent, "%")
	// Output: 20 %
}

// Classes may change while calls wait.
func ExampleRateLimiter_SetClasses() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 10})
	classes := rl.Classes()
	classes["reports"] = ratelimit.Class{Weight: 3, MaxQueue: 100}
	rl.SetClasses(classes)
	fmt.Println(slices.Sorted(maps.Keys(rl.Classes())))
	// Output: [batch interactive reports]
}

// A call takes the first of several models that has room, and waits for any of them.
func ExampleRateLimiter_AcquireAny() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	candidates := []ratelimit.Request{
		{Model: "gpt-4o", PromptTokens: 400, OutputTokens: 100},
		{Model: "gpt-4o-mini", PromptTokens: 400, OutputTokens: 100},
	}
	for range 2 {
		reservation, err := rl.AcquireAny(context.Background(), ratelimit.AnyOptions{}, candidates...)
		if err != nil {
			log.Fatal(err)
		}
		defer reservation.Commit(400, 20)
		fmt.Println(reservation.Model())
	}
	// Output:
	// gpt-4o
	// gpt-4o-mini
}

// With patience a call waits for the model that it prefers for so long, before it takes another.
func ExampleAnyOptions() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	candidates := []ratelimit.Request{{Model: "gpt-4o"}, {Model: "gpt-4o-mini"}}
	first, _ := rl.Reserve("gpt-4o", 400, 100)
	go func() {
		for rl.Stats("gpt-4o").Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		first.Commit(400, 20)
	}()
	for _, patience := range []time.Duration{time.Hour, time.Millisecond} {
		reservation, err := rl.AcquireAny(context.Background(), ratelimit.AnyOptions{Patience: patience}, candidates...)
		if err != nil {
			log.Fatal(err)
		}
		defer reservation.Commit(1, 1)
		fmt.Println(reservation.Model())
	}
	// Output:
	// gpt-4o
	// gpt-4o-mini
}

// The same without waiting.
func ExampleRateLimiter_ReserveAny() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	candidates := []ratelimit.Request{{Model: "gpt-4o"}, {Model: "gpt-4o-mini"}}
	for range 3 {
		reservation, d := rl.ReserveAny(candidates...)
		if reservation == nil {
			fmt.Println(d.Code)
			break
		}
		reservation.Commit(1, 1)
		fmt.Println(reservation.Model())
	}
	// Output:
	// gpt-4o
	// gpt-4o-mini
	// rpm_exceeded
}
