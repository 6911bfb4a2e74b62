package llmhttp_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Money that is gone does not make the next call wait, whatever Retry-After says.
func TestExhaustedDoesNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`, "Retry-After: 60", "X-Should-Retry: false")}
		resp, err := post(t, tr, chatURL, `{"model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if d := rl.Decide("m", 0); !d.Allowed {
			t.Errorf("the next one waits %v: %s", d.RetryAfter, d.Code)
		}
	})
}

// A shorter pause does not shorten a longer one, also by calls that were in flight.
func TestPauseIsNotShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		var n int
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			n++
			after := []string{"90", "1", "30", "0", "-5", "1e21", "Thu, 01 Jan 1970 00:00:00 GMT"}[n-1]
			time.Sleep(time.Duration(n) * time.Second)
			return response(req, 429, "{}", "Retry-After: "+after), nil
		})}
		var wg sync.WaitGroup
		for range 7 {
			wg.Go(func() {
				exchange(t, tr, chatURL, `{"model":"m"}`)
			})
			synctest.Wait()
		}
		began := time.Now()
		wg.Wait()
		until := rl.Decide("m", 0).RetryAfter + time.Since(began)
		if until < 91*time.Second || until > 92*time.Second {
			t.Errorf("it pauses until %v after the start", until)
		}
	})
}

// What http.Client's Timeout forbids is refused at once, in the provider's form.
func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.RecordUsage("m", 1, 1)
		client := &http.Client{Timeout: 30 * time.Second, Transport: &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}")}}
		began := time.Now()
		resp, err := client.Post(chatURL, "application/json", strings.NewReader(`{"model":"m"}`))
		if err != nil || resp.StatusCode != 429 || time.Since(began) != 0 {
			t.Fatalf("after %v: %v, %v", time.Since(began), resp, err)
		}
		readAll(t, resp)
	})
}
