package limit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// 60 calls a minute, of which ten may come at once.
func Example() {
	l, err := limit.NewGCRA(limit.PerMinute(60), 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 10 {
		l.Allow()
	}
	d := l.Take(1)
	fmt.Println(d.OK, d.RetryAfter.Round(time.Second))
	// Output: false 1s
}

// A server reports the limit to its clients.
func ExampleDecision() {
	perMinute, err := limit.NewFixedWindow(2, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2030, 1, 1, 12, 0, 50, 0, time.UTC)
	seconds := func(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d := perMinute.TakeAt(now, 1)
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(d.Remaining))
		w.Header().Set("X-RateLimit-Reset", seconds(d.ResetAfter))
		if !d.OK {
			w.Header().Set("Retry-After", seconds(d.RetryAfter))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d, %s left, reset in %s, retry in %q\n", w.Code,
			w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Reset"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200, 1 left, reset in 10, retry in ""
	// 200, 0 left, reset in 10, retry in ""
	// 429, 0 left, reset in 10, retry in "10"
}

// A request that no wait helps is refused at once.
func ExampleGCRA_WaitN() {
	l, err := limit.NewGCRA(limit.PerMinute(60), 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.WaitN(context.Background(), 10))

	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	err = l.Wait(ctx)
	fmt.Println(errors.Is(err, limit.ErrDeadline), errors.Is(err, context.DeadlineExceeded))
	fmt.Println(errors.Is(l.WaitN(context.Background(), 11), limit.ErrNeverFits))
	// Output:
	// <nil>
	// true true
	// true
}

// Rates are ratios, and constructors say what is wrong with one.
func ExampleRate() {
	fmt.Println(limit.PerSecond(10), limit.PerMinute(60), limit.Every(100*time.Millisecond))
	fmt.Println(limit.PerMinute(90).Limit())
	_, err := limit.NewMeter(limit.PerSecond(0), 1)
	fmt.Println(errors.Is(err, limit.ErrInvalid), err)
	// Output:
	// 10/1s 60/1m0s 1/100ms
	// 1.5
	// true new meter: invalid parameter: rate.Count is 0, want 1 or more
}

// weekdays is a Limiter of the caller: it admits everything from Monday to Friday.
type weekdays struct{}

func (weekdays) TakeAt(now time.Time, n int) limit.Decision {
	if n < 0 {
		return limit.Decision{Never: true}
	}
	day := now.Weekday()
	if n == 0 || day != time.Saturday && day != time.Sunday {
		return limit.Decision{OK: true, Remaining: 1 << 30}
	}
	monday := now.Truncate(24*time.Hour).AddDate(0, 0, (8-int(day))%7)
	return limit.Decision{RetryAfter: monday.Sub(now)}
}

// A Limiter of the caller beside one of the package.
func ExampleLimiter() {
	pace, err := limit.NewGCRA(limit.PerMinute(60), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	l := limit.All(pace, weekdays{})
	friday := time.Date(2030, 1, 4, 23, 59, 59, 0, time.UTC)
	fmt.Println(l.TakeAt(friday, 1).OK)
	fmt.Println(l.TakeAt(friday, 1).RetryAfter)
	fmt.Println(l.TakeAt(friday.Add(time.Second), 1).RetryAfter)
	// Output:
	// true
	// 1s
	// 48h0m0s
}
