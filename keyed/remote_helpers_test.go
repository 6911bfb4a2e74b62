package keyed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// bubble runs a test in a bubble of synctest, half a second into a minute: its time is virtual.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(500 * time.Millisecond)
		test(t)
	})
}

// shared returns a Limiter that is closed at the end of the test.
func shared(t *testing.T, o keyed.Options) *keyed.Limiter {
	t.Helper()
	l, err := keyed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// perMinute returns a request for one unit of a key that may have some in a minute.
func perMinute(key string, limit int64) keyed.Request {
	return keyed.Request{Namespace: "requests", Key: key, Limit: int(limit), Window: time.Minute, Cost: 1}
}

// cellOf returns the current cell of a request's counter.
func cellOf(r keyed.Request) keyed.Cell {
	sequence := time.Now().UnixNano() / int64(r.Window)
	return keyed.Cell{Namespace: r.Namespace, Key: r.Key, Window: r.Window, Sequence: sequence}
}

// costing returns a request for so many units, which may be none.
func costing(r keyed.Request, units int) keyed.Request {
	if r.Cost = units; units == 0 {
		r.Cost = keyed.Free
	}
	return r
}

func takeNow(t *testing.T, l *keyed.Limiter, r keyed.Request) limit.Decision {
	t.Helper()
	d, err := l.Take(t.Context(), r)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return d
}

// takes takes n times, and returns how many of them passed.
func takes(t *testing.T, l *keyed.Limiter, r keyed.Request, n int) (passed int) {
	t.Helper()
	for range n {
		if takeNow(t, l, r).OK {
			passed++
		}
	}
	return passed
}

// wantCalls fails the test unless so many calls of a method have begun.
func wantCalls(t *testing.T, o interface{ Calls(string) int }, method string, want int) {
	t.Helper()
	if got := o.Calls(method); got != want {
		t.Errorf("%d calls of %s, want %d", got, method, want)
	}
}

// failing is how an Origin is set to fail all calls.
var failing = keyedtest.Faults{Err: context.DeadlineExceeded}
