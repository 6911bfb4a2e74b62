package adaptive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Every call waits for its turn, and a 429 is reported.
func ExampleRate() {
	r, err := adaptive.NewRate(adaptive.RateConfig{
		Floor:   limit.PerMinute(6),
		Ceiling: limit.PerMinute(6000),
		Start:   limit.PerMinute(60),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(ctx context.Context, send func() *http.Response) error {
		if err := r.Wait(ctx); err != nil {
			return err
		}
		sent := time.Now()
		resp := send()
		if resp.StatusCode == http.StatusTooManyRequests {
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			r.Refused(adaptive.Refusal{Sent: sent, RetryAfter: time.Duration(seconds) * time.Second})
			return errors.New("refused")
		}
		return nil
	}
	err = call(context.Background(), func() *http.Response { return &http.Response{StatusCode: 429} })
	fmt.Printf("%v, now %.0f a minute\n", err, r.State().Rate().Limit()*60)
	// Output: refused, now 57 a minute
}

// However many calls of one event are refused, the rate is lowered once, and nothing is sent
// before the provider wants it.
func ExampleRate_RefusedAt() {
	r, err := adaptive.NewRate(adaptive.RateConfig{
		Floor: limit.PerSecond(1), Ceiling: limit.PerSecond(1000), Start: limit.PerSecond(100), Seed: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	for range 20 {
		if r.RefusedAt(now, adaptive.Refusal{RetryAfter: 5 * time.Second}) {
			fmt.Println("lowered to", r.StateAt(now).Rate().Limit(), "a second")
		}
	}
	fmt.Println(r.TakeAt(now, 1).RetryAfter.Truncate(time.Second))
	// Output:
	// lowered to 95 a second
	// 5s
}

// What was found is kept while the program does not run, and believed the less the longer that
// was.
func ExampleRate_Restore() {
	config := adaptive.RateConfig{
		Floor: limit.PerSecond(1), Ceiling: limit.PerSecond(1000), HalfLife: time.Hour,
	}
	r, err := adaptive.NewRate(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	kept := []byte(`{"units":101000000000,"knee":102000000000,"at":1795348800000000000}`) // of State, in JSON
	var state adaptive.RateState
	if err := json.Unmarshal(kept, &state); err != nil {
		fmt.Println(err)
		return
	}
	r.Restore(state, time.Unix(0, state.At).Add(time.Hour))
	fmt.Println(r.State().Rate().Limit(), "a second")
	// Output: 51 a second
}

// A call holds a slot while it is under way, and says at its end whether the provider was
// overloaded.
func ExampleConcurrency() {
	c, err := adaptive.NewConcurrency(adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 100, Start: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(ctx context.Context, send func() (status int, err error)) error {
		slot, err := c.Acquire(ctx)
		if err != nil {
			return err
		}
		defer slot.Release() // does nothing after Overloaded
		status, err := send()
		if status == 503 || status == 529 || errors.Is(err, context.DeadlineExceeded) {
			slot.Overloaded(0)
		}
		return err
	}
	err = call(context.Background(), func() (int, error) { return 529, nil })
	fmt.Println(err, c.Limit(), c.InFlight())
	// Output: <nil> 19 0
}

// A program that does not want to wait asks.
func ExampleConcurrency_TryAcquire() {
	c, err := adaptive.NewConcurrency(adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	slot, ok := c.TryAcquire()
	_, second := c.TryAcquire()
	slot.Release()
	_, third := c.TryAcquire()
	fmt.Println(ok, second, third)
	// Output: true false true
}

// In an outage few calls are sent.
func ExampleThrottle() {
	t, err := adaptive.NewThrottle(adaptive.ThrottleConfig{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	sent := 0
	for range 1000 {
		now = now.Add(10 * time.Millisecond)
		if t.AllowAt(now) {
			sent++
			t.FailedAt(now) // a provider that answers is Accepted, also with 400 or 429
		}
	}
	fmt.Println(sent, "of 1000 calls sent,", t.RejectionAt(now), "of 1000 rejected")
	// Output: 28 of 1000 calls sent, 992 of 1000 rejected
}
