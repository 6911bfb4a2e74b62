package keyedtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// An Origin of one's own passes the tests of this package.
func ExampleExerciseOrigin() {
	_ = func(t *testing.T) {
		keyedtest.ExerciseOrigin(t, func(*testing.T) keyed.Origin { return keyedtest.NewOrigin() })
	}
}

// An Exchange of one's own passes the tests of this package.
func ExampleExerciseExchange() {
	_ = func(t *testing.T) {
		keyedtest.ExerciseExchange(t, func(*testing.T) keyed.Exchange { return keyedtest.NewExchange() })
	}
}

// While the Origin fails, a Limiter decides by what it knows, and tells of the failure.
func ExampleOrigin_Set() {
	ctx := context.Background()
	origin := keyedtest.NewOrigin()
	failures := make(chan error, 10)
	l, err := keyed.New(keyed.Options{Origin: origin, OnError: func(err error) { failures <- err }})
	if err != nil {
		fmt.Println(err)
		return
	}
	origin.Set(keyedtest.Faults{Err: errors.New("no route to host")})
	request := keyed.Request{Namespace: "requests", Key: "acme", Limit: 10, Window: time.Minute, Cost: keyed.Free}
	d, err := l.Take(ctx, request)
	fmt.Println(d.OK, d.Remaining, err)
	fmt.Println(<-failures)
	origin.Set(keyedtest.Faults{})
	request.Cost = 1
	d, err = l.Take(ctx, request)
	fmt.Println(d.OK, d.Remaining, err)
	fmt.Println(l.Close(ctx), origin.Total("requests", "acme"))
	// Output:
	// true 10 <nil>
	// read origin: no route to host
	// true 9 <nil>
	// <nil> 1
}

// What was pushed before can be looked at.
func ExampleExchange_Count() {
	exchange := keyedtest.NewExchange()
	cell := keyed.Cell{Namespace: "requests", Key: "acme", Window: time.Minute, Sequence: 28_333_333}
	err := exchange.Push(context.Background(), []keyed.Row{{Cell: cell, Region: "eu", Count: 7}})
	fmt.Println(exchange.Count(cell, "eu"), exchange.Count(cell, "us"), err)
	// Output: 7 0 <nil>
}
