package llmhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The class and the flow in a request's context count for its place in line, however the call is
// charged and routed.
func TestClassOfContext(t *testing.T) {
	plain := func(rl *ratelimit.RateLimiter, b base) http.RoundTripper {
		return &llmhttp.Transport{Limiter: rl, Base: b}
	}
	routed := func(names ...string) func(*ratelimit.RateLimiter, base) http.RoundTripper {
		return func(rl *ratelimit.RateLimiter, b base) http.RoundTripper {
			return &llmhttp.Route{Transport: llmhttp.Transport{Limiter: rl, Base: b}, Backends: keyed(names...)}
		}
	}
	for name, test := range map[string]struct {
		wrap   func(*ratelimit.RateLimiter, base) http.RoundTripper
		charge bool
	}{
		"Transport":             {wrap: plain},
		"Transport with charge": {wrap: plain, charge: true},
		"Route":                 {wrap: routed("a", "b")},
		"Route with charge":     {wrap: routed("a"), charge: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 1}, "team": {MaxRPM: 1000}},
					Classes: map[string]ratelimit.Class{"person": {Ahead: true}, "batch": {}},
				})
				var held ratelimit.Reservations
				for _, model := range []string{"m", "a/m", "b/m"} {
					r, _ := rl.Reserve(model, 0, 0)
					held = append(held, r)
				}
				var mu sync.Mutex
				var order []string
				rt := test.wrap(rl, func(req *http.Request) (*http.Response, error) {
					io.Copy(io.Discard, req.Body)
					mu.Lock()
					order = append(order, req.Header.Get("X-Who"))
					mu.Unlock()
					time.Sleep(time.Second)
					return response(req, 200, `{}`), nil
				})
				var wg sync.WaitGroup
				send := func(who, class, flow string) {
					ctx := ratelimit.WithFlow(ratelimit.WithClass(t.Context(), class), flow)
					if test.charge {
						ctx = llmhttp.WithCharge(ctx, ratelimit.Request{Model: "team"})
					}
					wg.Go(func() { call1(ctx, t, rt, who) })
					synctest.Wait()
				}
				send("b1", "batch", "x")
				send("b2", "batch", "x")
				send("b3", "batch", "y")
				send("p1", "person", "")
				send("p2", "person", "")
				time.Sleep(time.Second)
				held[0].Cancel()
				held[1].Cancel()
				wg.Wait()
				held[2].Cancel()
				if got := fmt.Sprint(order); got != "[p1 p2 b1 b3 b2]" {
					t.Errorf("served %s", got)
				}
			})
		})
	}
}

// call1 makes a call that says who makes it.
func call1(ctx context.Context, t *testing.T, rt http.RoundTripper, who string) {
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
	req.Header.Set("X-Who", who)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
