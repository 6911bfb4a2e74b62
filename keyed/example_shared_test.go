package keyed_test

import (
	"context"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// Two processes share their counts through an Origin: here one in memory, in a service one of
// package redislimit.
func ExampleOrigin() {
	ctx := context.Background()
	origin := keyedtest.NewOrigin()
	first, err := keyed.New(keyed.Options{Origin: origin})
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := keyed.New(keyed.Options{Origin: origin})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1_700_000_000, 0)
	request := keyed.Request{Namespace: "requests", Key: "acme", Limit: 100, Window: time.Minute, Cost: 30}
	first.TakeAt(ctx, now, request)
	if err := first.Close(ctx); err != nil { // it replays in the background; here we wait for that
		fmt.Println(err)
	}
	d, err := second.TakeAt(ctx, now, request)
	fmt.Println(d.OK, d.Remaining, err)
	fmt.Println(second.Close(ctx))
	// Output:
	// true 40 <nil>
	// <nil>
}

// Two regions exchange their counts. The second hears of the first with its next exchange.
func ExampleExchange() {
	ctx := context.Background()
	exchange := keyedtest.NewExchange()
	request := keyed.Request{Namespace: "requests", Key: "acme", Limit: 100, Window: 24 * time.Hour, Cost: 30}
	region := func(name string) *keyed.Limiter {
		l, err := keyed.New(keyed.Options{Exchange: exchange, Region: name, ExchangeEvery: time.Millisecond})
		if err != nil {
			panic(err)
		}
		return l
	}
	eu, us := region("eu"), region("us")
	now := time.Now()
	eu.TakeAt(ctx, now, request)
	us.TakeAt(ctx, now, request)
	for {
		if d, _ := us.PeekAt(ctx, now, request); d.Remaining == 40 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("40 of 100 are left in both regions")
	fmt.Println(eu.Close(ctx), us.Close(ctx))
	// Output:
	// 40 of 100 are left in both regions
	// <nil> <nil>
}
