package limit_test

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// The minute of a FixedWindow is that of the clock on the wall.
func ExampleFixedWindow() {
	l, err := limit.NewFixedWindow(2, time.Minute)
	if err != nil {
		panic(err)
	}
	now := time.Date(2030, 1, 1, 12, 0, 50, 0, time.UTC)
	for range 3 {
		d := l.TakeAt(now, 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 10s
}

// The minute of an AnchoredWindow begins with the first request.
func ExampleAnchoredWindow() {
	l, err := limit.NewAnchoredWindow(2, time.Minute)
	if err != nil {
		panic(err)
	}
	now := time.Date(2030, 1, 1, 12, 0, 50, 0, time.UTC)
	for range 3 {
		d := l.TakeAt(now, 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

// A SlidingLog of tokens: a request waits until as many as it needs have left the minute
// before it.
func ExampleSlidingLog() {
	l, err := limit.NewSlidingLog(10_000, time.Minute)
	if err != nil {
		panic(err)
	}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	l.TakeAt(now, 6_000)
	l.TakeAt(now.Add(20*time.Second), 4_000)
	fmt.Println(l.TakeAt(now.Add(30*time.Second), 5_000).RetryAfter)
	fmt.Println(l.TakeAt(now.Add(30*time.Second), 7_000).RetryAfter)
	// Output:
	// 30s
	// 50s
}

// What is on hold is committed when the call has reached the provider, and cancelled when
// it has not.
func ExampleSlidingLog_HoldAt() {
	l, err := limit.NewSlidingLog(10, time.Minute)
	if err != nil {
		panic(err)
	}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	sent, _ := l.HoldAt(now, 4)
	failed, d := l.HoldAt(now, 3)
	fmt.Println(d.OK, d.Remaining)
	failed.Cancel()
	sent.Commit()
	fmt.Println(l.TakeAt(now.Add(30*time.Second), 0).Remaining)
	fmt.Println(l.TakeAt(now.Add(time.Minute), 0).Remaining)
	// Output:
	// true 3
	// 6
	// 10
}

// Of the minute before, a SlidingCounter counts the share that it estimates to be left.
func ExampleSlidingCounter() {
	l, err := limit.NewSlidingCounter(100, time.Minute)
	if err != nil {
		panic(err)
	}
	minute := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	l.TakeAt(minute.Add(30*time.Second), 80)
	for _, after := range []time.Duration{60 * time.Second, 75 * time.Second, 90 * time.Second} {
		fmt.Println(l.TakeAt(minute.Add(after), 0).Remaining)
	}
	// Output:
	// 20
	// 40
	// 60
}
