package keyed_test

import (
	"context"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

func ExampleLimiter_Take() {
	lim, err := keyed.New(keyed.Options{MaxKeys: 100_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := lim.Take(context.Background(), keyed.Request{
			Namespace: "requests", Key: "tenant-42", Limit: 2, Window: 24 * time.Hour, Cost: 1,
		})
		fmt.Println(d.OK, d.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

func ExampleLimiter_TakeAt() {
	lim, _ := keyed.New(keyed.Options{})
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	r := keyed.Request{Namespace: "requests", Key: "tenant-42", Limit: 100, Window: 10 * time.Second, Cost: 100}
	d, _ := lim.TakeAt(context.Background(), at(9), r)
	fmt.Println(d.OK)

	// In the middle of the next cell half of the 100 units count.
	r.Cost = 60
	d, _ = lim.TakeAt(context.Background(), at(15), r)
	fmt.Println(d.OK, d.Remaining, "retry after", d.RetryAfter)
	d, _ = lim.TakeAt(context.Background(), at(15).Add(d.RetryAfter), r)
	fmt.Println(d.OK)
	// Output:
	// true
	// false 50 retry after 900.000001ms
	// true
}

// A tenant has a limit of requests and one of tokens. A call that exceeds either is charged to
// neither.
func ExampleLimiter_TakeAll() {
	lim, _ := keyed.New(keyed.Options{})
	call := func(tokens int) {
		ds, err := lim.TakeAll(context.Background(),
			keyed.Request{Namespace: "requests", Key: "tenant-42", Limit: 100, Window: 24 * time.Hour, Cost: 1},
			keyed.Request{Namespace: "tokens", Key: "tenant-42", Limit: 8000, Window: 24 * time.Hour, Cost: tokens},
		)
		fmt.Println(ds[0].OK && ds[1].OK, ds[0].Remaining, ds[1].Remaining, err)
	}
	call(5000)
	call(4000)
	call(3000)
	// Output:
	// true 99 3000 <nil>
	// false 99 3000 <nil>
	// true 98 0 <nil>
}

// The tokens of a call are known when it has ended.
func ExampleLimiter_Hold() {
	lim, _ := keyed.New(keyed.Options{})
	r := keyed.Request{Namespace: "tokens", Key: "tenant-42", Limit: 8000, Window: 24 * time.Hour, Cost: 3000}
	hold, d, err := lim.Hold(context.Background(), r)
	if err != nil || !d.OK {
		fmt.Println("refused", d.RetryAfter, err)
		return
	}
	defer hold.Cancel() // does nothing after Commit
	fmt.Println("held, remaining", d.Remaining)

	hold.Commit(1200)

	d, _ = lim.Peek(context.Background(), r)
	fmt.Println("remaining", d.Remaining)
	// Output:
	// held, remaining 5000
	// remaining 6800
}

// A page shows what is left of a quota, and uses nothing of it.
func ExampleLimiter_Peek() {
	ctx := context.Background()
	lim, _ := keyed.New(keyed.Options{})
	r := keyed.Request{Namespace: "requests", Key: "tenant-42", Limit: 100, Window: 24 * time.Hour}
	lim.Take(ctx, r)
	for range 3 {
		d, err := lim.Peek(ctx, r)
		fmt.Println(d.OK, d.Remaining, err)
	}
	// Output:
	// true 99 <nil>
	// true 99 <nil>
	// true 99 <nil>
}

// An operator gives a tenant its quota of the day once more.
func ExampleLimiter_Reset() {
	ctx := context.Background()
	lim, _ := keyed.New(keyed.Options{})
	r := keyed.Request{Namespace: "requests", Key: "tenant-42", Limit: 2, Window: 24 * time.Hour, Cost: 2}
	for range 2 {
		d, err := lim.Take(ctx, r)
		fmt.Println(d.OK, err)
	}
	fmt.Println(lim.Reset(r.Namespace, r.Key, r.Window))
	d, err := lim.Take(ctx, r)
	fmt.Println(d.OK, err)
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
	// true <nil>
}

func ExampleLimiter_HoldAll() {
	lim, _ := keyed.New(keyed.Options{})
	holds, ds, err := lim.HoldAll(context.Background(),
		keyed.Request{Namespace: "requests", Key: "tenant-42", Limit: 100, Window: 24 * time.Hour, Cost: 1},
		keyed.Request{Namespace: "tokens", Key: "tenant-42", Limit: 8000, Window: 24 * time.Hour, Cost: 3000},
	)
	if err != nil || holds == nil {
		fmt.Println("refused", ds, err)
		return
	}
	holds[0].Commit(1)    // a request is a request
	holds[1].Commit(1200) // as the response says
	fmt.Println(ds[0].Remaining, ds[1].Remaining)
	// Output: 99 5000
}
