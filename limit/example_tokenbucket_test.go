package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// A TokenBucket stands in for a rate.Limiter of golang.org/x/time: two at once, and then
// one every 100 ms.
func ExampleTokenBucket() {
	lim := limit.NewTokenBucket(limit.PerSecond(10).Limit(), 2)
	now := time.Now()
	fmt.Println(lim.AllowN(now, 2), lim.AllowN(now, 1), lim.AllowN(now.Add(100*time.Millisecond), 1))
	// Output: true false true
}

// A reservation takes tokens before they are there, and says how long to wait.
func ExampleTokenBucket_ReserveN() {
	lim := limit.NewTokenBucket(10, 1)
	now := time.Now()
	for range 3 {
		fmt.Println(lim.ReserveN(now, 1).DelayFrom(now))
	}
	unused := lim.ReserveN(now, 1)
	unused.CancelAt(now)
	fmt.Println(lim.TokensAt(now))
	// Output:
	// 0s
	// 100ms
	// 200ms
	// -2
}

// Wait says at once when it could not pass in time.
func ExampleTokenBucket_WaitN() {
	lim := limit.NewTokenBucket(limit.Every(time.Hour).Limit(), 1)
	lim.Allow()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(errors.Is(lim.Wait(ctx), limit.ErrDeadline))
	fmt.Println(errors.Is(lim.WaitN(ctx, 2), limit.ErrNeverFits))
	// Output:
	// true
	// true
}

// Tokens on hold are reserved until it is known whether they are used.
func ExampleTokenBucket_HoldAt() {
	lim := limit.NewTokenBucket(1, 10)
	now := time.Now()
	hold, _ := lim.HoldAt(now, 7)
	fmt.Println(lim.TakeAt(now, 4).OK, lim.TakeAt(now, 3).OK)
	hold.Cancel()
	fmt.Println(lim.TakeAt(now, 7).OK)
	// Output:
	// false true
	// true
}
