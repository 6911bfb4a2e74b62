package limit_test

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Ten calls a second, of which three may come at once.
func ExampleGCRA() {
	l, err := limit.NewGCRA(limit.PerSecond(10), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now() // Take and Allow read the clock themselves
	for range 4 {
		d := l.TakeAt(now, 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 100ms
}

// The fastest way to drop what comes too fast.
func ExampleAtomicGCRA() {
	l, err := limit.NewAtomicGCRA(limit.PerMinute(1), 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		if l.Allow() {
			fmt.Println("call")
		} else {
			fmt.Println("drop")
		}
	}
	// Output:
	// call
	// call
	// drop
}

// A rate that does not divide: three a second take a third of a second each, exactly.
func ExampleMeter() {
	l, err := limit.NewMeter(limit.PerSecond(3), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	fmt.Println(l.TakeAt(now, 3).OK)
	fmt.Println(l.TakeAt(now, 1).RetryAfter)
	fmt.Println(l.TakeAt(now.Add(time.Second), 3).OK)
	// Output:
	// true
	// 333.333334ms
	// true
}

// A call of which only its end tells whether it counts.
func ExampleHold() {
	l, err := limit.NewGCRA(limit.PerMinute(60), 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	for _, failed := range []bool{false, true} {
		hold, d := l.HoldAt(now, 4)
		fmt.Println("during the call:", d.Remaining)
		if failed {
			hold.Cancel()
		} else {
			hold.Commit()
		}
		fmt.Println("after it:", l.TakeAt(now, 0).Remaining)
	}
	// Output:
	// during the call: 6
	// after it: 6
	// during the call: 2
	// after it: 6
}
