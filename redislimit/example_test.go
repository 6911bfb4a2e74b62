package redislimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// exampleClient returns the client of a server whose clock stands at noon.
func exampleClient() (client *redis.Client, setTime func(time.Time)) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	server.SetTime(noon)
	return redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}), server.SetTime
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// A login attempt is refused where Redis gives no answer.
func ExampleNewFixedWindow() {
	client, _ := exampleClient()
	defer client.Close()
	logins, err := redislimit.NewFixedWindow(client, 3, time.Minute, redislimit.Options{Prefix: "logins"})
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		d, err := logins.Take(context.Background(), "203.0.113.7", 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter, err)
	}
	// Output:
	// true 2 0s <nil>
	// true 1 0s <nil>
	// true 0 0s <nil>
	// false 0 1m0s <nil>
}

func ExampleNewSlidingCounter() {
	client, setTime := exampleClient()
	defer client.Close()
	l, err := redislimit.NewSlidingCounter(client, 100, time.Minute, redislimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l.Take(context.Background(), "acme", 100)
	setTime(noon.Add(75 * time.Second)) // three quarters of the 100 count
	d, _ := l.Take(context.Background(), "acme", 30)
	fmt.Println(d.OK, d.Remaining, d.RetryAfter)
	// Output: false 25 2.400001s
}

func ExampleNewSlidingLog() {
	client, setTime := exampleClient()
	defer client.Close()
	l, err := redislimit.NewSlidingLog(client, 2, time.Minute, redislimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, at := range []time.Duration{0, 10 * time.Second, 59 * time.Second, time.Minute} {
		setTime(noon.Add(at))
		d, _ := l.Take(context.Background(), "acme", 1)
		fmt.Println(at, d.OK, d.RetryAfter)
	}
	// Output:
	// 0s true 0s
	// 10s true 0s
	// 59s false 1s
	// 1m0s true 0s
}

// With ten machines, each goes on with a tenth of the limit where Redis gives no answer.
func ExampleNewTokenBucket() {
	client, _ := exampleClient()
	defer client.Close()
	l, err := redislimit.NewTokenBucket(client, limit.PerSecond(10), 20, redislimit.Options{
		OnFailure:    redislimit.Local(0.1),
		Timeout:      50 * time.Millisecond,
		CacheDenials: 10_000,
		OnError:      func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		d, err := l.Take(r.Context(), r.Header.Get("X-Tenant"), 1)
		switch {
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case !d.OK:
			w.Header().Set("Retry-After", strconv.Itoa(int((d.RetryAfter+time.Second-1)/time.Second)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
	}
	_ = handler
	d, err := l.Take(context.Background(), "acme", 20)
	fmt.Println(d.OK, d.Remaining, d.ResetAfter, err)
	d, err = l.Take(context.Background(), "acme", 1)
	fmt.Println(d.OK, d.RetryAfter, err)
	// Output:
	// true 0 2s <nil>
	// false 100ms <nil>
}

// A call takes one request and an estimate of its tokens, both or none, and gives back the tokens
// that it did not need.
func ExampleGroup_HoldAll() {
	client, _ := exampleClient()
	defer client.Close()
	ctx := context.Background()
	requests, err := redislimit.NewFixedWindow(client, 60, time.Minute, redislimit.Options{Prefix: "requests"})
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := redislimit.NewTokenBucket(client, limit.PerMinute(10_000), 10_000, redislimit.Options{Prefix: "tokens"})
	if err != nil {
		log.Fatal(err)
	}
	group, err := redislimit.NewGroup(client, redislimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	charges := func(estimate int) []redislimit.Charge {
		return []redislimit.Charge{{Limiter: requests, Key: "{acme}", N: 1}, {Limiter: tokens, Key: "{acme}", N: estimate}}
	}
	hold, ds, err := group.HoldAll(ctx, charges(8_000)...)
	fmt.Println(ds[0].OK && ds[1].OK, ds[0].Remaining, ds[1].Remaining, err)
	ds, err = group.TakeAll(ctx, charges(8_000)...)
	fmt.Println(ds[0].OK, ds[1].OK, ds[1].RetryAfter, err)

	fmt.Println(hold.Commit(ctx, 1, 1_500))
	ds, _ = group.TakeAll(ctx, charges(8_000)...)
	fmt.Println(ds[0].Remaining, ds[1].Remaining)
	// Output:
	// true 59 2000 <nil>
	// true false 36s <nil>
	// <nil>
	// 58 500
}

// A call that failed is repeated, and charges once.
func ExampleWithOperation() {
	client, _ := exampleClient()
	defer client.Close()
	l, err := redislimit.NewFixedWindow(client, 10, time.Minute, redislimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := redislimit.WithOperation(context.Background(), "order-4711")
	for range 3 {
		d, err := l.Take(ctx, "acme", 4)
		fmt.Println(d.OK, d.Remaining, err)
	}
	// Output:
	// true 6 <nil>
	// true 6 <nil>
	// true 6 <nil>
}

// The processes of a region share counts through an Origin. Package keyed calls it in the
// background.
func ExampleNewOrigin() {
	client, _ := exampleClient()
	defer client.Close()
	origin, err := redislimit.NewOrigin(client, "acme-eu")
	if err != nil {
		log.Fatal(err)
	}
	cell := keyed.Cell{Namespace: "requests", Key: "acme", Window: time.Minute, Sequence: noon.Unix() / 60}
	counts, err := origin.Add(context.Background(), keyed.Replay{
		Process: "one", Number: 1, Deltas: []keyed.Delta{{Cell: cell, Add: 12}},
	})
	fmt.Println(counts, err)
	// Output: [12] <nil>
}

// Regions tell each other their counts through an Exchange.
func ExampleNewExchange() {
	client, _ := exampleClient()
	defer client.Close()
	exchange, err := redislimit.NewExchange(client, "acme")
	if err != nil {
		log.Fatal(err)
	}
	cell := keyed.Cell{Namespace: "requests", Key: "acme", Window: time.Minute, Sequence: noon.Unix() / 60}
	ctx := context.Background()
	if err := exchange.Push(ctx, []keyed.Row{{Cell: cell, Region: "eu", Count: 12}}); err != nil {
		log.Fatal(err)
	}
	rows, next, err := exchange.Pull(ctx, "")
	fmt.Println(len(rows), rows[0].Region, rows[0].Count, err)
	rows, _, err = exchange.Pull(ctx, next)
	fmt.Println(len(rows), err)
	// Output:
	// 1 eu 12 <nil>
	// 0 <nil>
}
