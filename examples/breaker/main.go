// Breaker shows circuit breakers of two libraries around the Transport of package llmhttp.
//
//	go run -C examples/breaker .
//
// The provider, a local server, is down for a while. While the breaker is open, calls fail at once:
// they neither wait for their turn nor use up the quota. So the breaker stands before the limiter.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func main() {
	// It takes a second: no signal ends it before.
	if err := demo.Run(func(_ context.Context, out io.Writer) error { return run(out) }); err != nil {
		fmt.Fprintln(os.Stderr, "breaker:", err)
		os.Exit(1)
	}
}

// run lets each library go through an outage.
func run(out io.Writer) error {
	for _, library := range []struct {
		name string
		wrap func(http.RoundTripper, time.Duration) http.RoundTripper
	}{{"sony/gobreaker", withGobreaker}, {"failsafe-go", withFailsafe}} {
		p := newProvider()
		defer p.server.Close()
		rl, err := newLimiter(ratelimit.ModelQuota{MaxRPM: 100})
		if err != nil {
			return err
		}
		client := &http.Client{Transport: library.wrap(&llmhttp.Transport{Limiter: rl}, 200*time.Millisecond)}
		fmt.Fprintf(out, "%s:\n", library.name)
		for _, step := range []struct {
			status int
			name   string
		}{{200, "well"}, {500, "down"}, {200, "back, while the breaker is open"}} {
			p.status.Store(int64(step.status))
			before := rl.Stats(model).RPM
			results := make(map[string]int)
			for range 8 {
				results[ask(client, p.server.URL)]++
			}
			fmt.Fprintf(out, "  the provider is %s: %v, %d of the quota\n", step.name, results, rl.Stats(model).RPM-before)
		}
		time.Sleep(250 * time.Millisecond)
		fmt.Fprintf(out, "  later: %s\n", ask(client, p.server.URL))
	}
	return nil
}

const model = "gpt-4o"

// provider answers every call with a status.
type provider struct {
	server *httptest.Server
	status atomic.Int64
	calls  atomic.Int64
}

func newProvider() *provider {
	p := &provider{}
	p.status.Store(200)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(p.status.Load()))
		io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	return p
}

// newLimiter returns a limiter with a quota for the model that saves nothing.
func newLimiter(q ratelimit.ModelQuota) (*ratelimit.RateLimiter, error) {
	return ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(os.TempDir(), "breaker.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{model: q},
	})
}

// ask makes a call, and returns what became of it.
func ask(client *http.Client, url string) string {
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"`+model+`"}`))
	if err != nil {
		if isOpen(err) {
			return "not sent"
		}
		return "error"
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return fmt.Sprint(resp.StatusCode)
}

// isOpen reports whether a call failed because a breaker is open.
func isOpen(err error) bool { return isGobreakerOpen(err) || isFailsafeOpen(err) }

// isFailure is what counts for a breaker: the provider did not take care of the call. A 429 is
// no failure, neither the provider's nor the limiter's own; the limiter deals with both. Nor
// is a call that the caller gave up.
func isFailure(resp *http.Response, err error) bool {
	var refused *ratelimit.LimitError
	switch {
	case err == nil:
		p := llmhttp.Classify(resp)
		return p != nil && (p.Kind == llmhttp.Overloaded || p.Kind == llmhttp.Failed)
	case errors.As(err, &refused), isGivenUp(err):
		return false
	}
	return true
}
