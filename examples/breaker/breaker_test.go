package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

var libraries = map[string]func(http.RoundTripper, time.Duration) http.RoundTripper{
	"gobreaker": withGobreaker, "failsafe": withFailsafe,
}

// on runs a test with each library: a client with a breaker around a Transport.
func on(t *testing.T, q ratelimit.ModelQuota, retries int, f func(*testing.T, *http.Client, *provider, *ratelimit.RateLimiter)) {
	for name, wrap := range libraries {
		t.Run(name, func(t *testing.T) {
			p := newProvider()
			defer p.server.Close()
			rl, err := newLimiter(q)
			if err != nil {
				t.Fatal(err)
			}
			transport := &llmhttp.Transport{Limiter: rl, MaxWait: time.Millisecond, Retry: llmhttp.Retry{Max: retries}}
			f(t, &http.Client{Transport: wrap(transport, time.Hour)}, p, rl)
		})
	}
}

// An open breaker takes nothing from the quota, and sends nothing.
func TestOpen(t *testing.T) {
	on(t, ratelimit.ModelQuota{MaxRPM: 100}, 0, func(t *testing.T, client *http.Client, p *provider, rl *ratelimit.RateLimiter) {
		p.status.Store(500)
		for range 20 {
			ask(client, p.server.URL)
		}
		if got := ask(client, p.server.URL); got != "not sent" {
			t.Errorf("after 20 failures: %s", got)
		}
		if calls := p.calls.Load(); calls > 6 || rl.Stats(model).RPM > int(calls) {
			t.Errorf("%d calls, %d of the quota", calls, rl.Stats(model).RPM)
		}
	})
}

// Neither a 429 nor a bad request opens the breaker.
func TestNotFailures(t *testing.T) {
	for _, status := range []int64{400, 401, 429} {
		on(t, ratelimit.ModelQuota{MaxRPM: 1000}, 0, func(t *testing.T, client *http.Client, p *provider, _ *ratelimit.RateLimiter) {
			p.status.Store(status)
			for range 20 {
				if got := ask(client, p.server.URL); got == "not sent" {
					t.Fatalf("%d opened the breaker", status)
				}
			}
		})
	}
}

// What the limiter refuses itself does not open the breaker, and neither does a caller who
// gives up.
func TestOwnRefusals(t *testing.T) {
	on(t, ratelimit.ModelQuota{MaxRPM: 1}, 0, func(t *testing.T, client *http.Client, p *provider, _ *ratelimit.RateLimiter) {
		for i := range 20 {
			if got := ask(client, p.server.URL); i == 0 && got != "200" || got == "not sent" {
				t.Fatalf("call %d: %s", i, got)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			req, err := http.NewRequestWithContext(ctx, "POST", p.server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Do(req); err == nil || isOpen(err) {
				t.Fatalf("a call that was given up: %v", err)
			}
		}
	})
}

// Every retry is admitted anew: two tries take two of the quota.
func TestRetriesAreAdmitted(t *testing.T) {
	on(t, ratelimit.ModelQuota{MaxRPM: 100}, 1, func(t *testing.T, client *http.Client, p *provider, rl *ratelimit.RateLimiter) {
		p.status.Store(500)
		if got := ask(client, p.server.URL); got != "500" {
			t.Errorf("got %s", got)
		}
		if calls, used := p.calls.Load(), rl.Stats(model).RPM; calls != 2 || used != 2 {
			t.Errorf("%d calls, %d of the quota, want 2 and 2", calls, used)
		}
	})
}

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "later: 200"); got != 2 {
		t.Errorf("want each library to be back:\n%s", &out)
	}
}
