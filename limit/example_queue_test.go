package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Calls start a minute apart, and two may wait.
func ExampleQueue() {
	q, err := limit.NewQueue(limit.PerMinute(1), 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first:", q.Wait(context.Background())) // starts at once

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fmt.Println("hurried:", errors.Is(q.Wait(ctx), limit.ErrDeadline)) // at once

	q.Take(2) // takes both places
	fmt.Println("one too many:", errors.Is(q.Wait(context.Background()), limit.ErrFull))
	// Output:
	// first: <nil>
	// hurried: true
	// one too many: true
}

// A caller with a scheduler of its own asks when to start.
func ExampleQueue_ReserveAt() {
	q, err := limit.NewQueue(limit.PerSecond(10), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	for range 4 {
		if delay, d := q.ReserveAt(now, 1); d.OK {
			fmt.Println("start in", delay)
		} else {
			fmt.Println("full")
		}
	}
	// Output:
	// start in 0s
	// start in 100ms
	// start in 200ms
	// full
}

// Slots are set aside until it is known whether the call is made.
func ExampleQueue_HoldAt() {
	q, err := limit.NewQueue(limit.PerSecond(10), 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	hold, _ := q.HoldAt(now, 2)
	delay, _ := q.ReserveAt(now, 1)
	fmt.Println("behind what is on hold:", delay)
	hold.Cancel()
	delay, _ = q.ReserveAt(now, 1)
	fmt.Println("in its place:", delay)
	// Output:
	// behind what is on hold: 200ms
	// in its place: 0s
}
