// Command sdk calls models with the SDKs of OpenAI, Anthropic and Google, faster than the
// provider allows, and gets no 429: the http.Client under the SDKs waits.
//
// The provider is a local server that enforces its own limits. With -real the program
// calls the providers whose keys are in the environment: OPENAI_API_KEY,
// ANTHROPIC_API_KEY, GEMINI_API_KEY.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// provider is the endpoint of an SDK.
type provider struct {
	name, url, key, model string
	ask                   func(context.Context, *http.Client, provider, string) (string, error)
}

const requestsPerMinute = 20

func main() {
	calls := flag.Int("calls", 25, "calls of each SDK")
	without := flag.Bool("without", false, "call without the limiter, to see what happens")
	real := flag.Bool("real", false, "call the real providers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *calls, *without, *real); err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, calls int, without, real bool) error {
	providers := []provider{
		{"OpenAI", "https://api.openai.com", os.Getenv("OPENAI_API_KEY"), "gpt-4o-mini", askOpenAI},
		{"Anthropic", "https://api.anthropic.com", os.Getenv("ANTHROPIC_API_KEY"), "claude-haiku-4-5", askAnthropic},
		{"Gemini", "https://generativelanguage.googleapis.com", os.Getenv("GEMINI_API_KEY"), "gemini-2.5-flash", askGemini},
	}
	if !real {
		server := httptest.NewServer(fakeprovider.New(fakeprovider.Options{}, map[string]fakeprovider.Config{
			"": {Limits: fakeprovider.Limits{fakeprovider.RPM: requestsPerMinute}},
		}))
		defer server.Close()
		for i := range providers {
			providers[i].url, providers[i].key = server.URL, "none"
		}
	}

	// This is all that a program has to do.
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas:   map[string]ratelimit.ModelQuota{"*": {MaxRPM: requestsPerMinute}},
		FilePath: filepath.Join(os.TempDir(), "go-ratelimit-sdk.yaml"), // nothing is saved there
	})
	if err != nil {
		return err
	}
	defer rl.Close()
	hc := llmhttp.NewClient(rl)

	// The rest counts the answers of the provider.
	refused := &counter{base: http.DefaultTransport}
	hc.Transport.(*llmhttp.Transport).Base = refused
	if without {
		hc.Transport = refused
	}
	fmt.Printf("%d calls with each SDK, at %d requests a minute\n", calls, requestsPerMinute)
	began := time.Now()
	var wg sync.WaitGroup
	var allFailed atomic.Int32
	for _, p := range providers {
		if p.key == "" {
			fmt.Printf("%-10s no key\n", p.name)
			continue
		}
		wg.Go(func() {
			var answered, failed atomic.Int32
			var each sync.WaitGroup
			for i := range calls {
				each.Go(func() {
					if _, err := p.ask(ctx, hc, p, fmt.Sprintf("What is %d times %d?", i, i)); err != nil {
						failed.Add(1)
						allFailed.Add(1)
						return
					}
					answered.Add(1)
				})
			}
			each.Wait()
			s := rl.Stats(p.model)
			fmt.Printf("%-10s %d answered, %d failed, after %.1fs; in the last minute %d requests, %d tokens\n",
				p.name, answered.Load(), failed.Load(), time.Since(began).Seconds(), s.RPM, s.TPM)
		})
	}
	wg.Wait()
	fmt.Printf("%d times 429\n", refused.n.Load())
	if n := allFailed.Load(); n > 0 {
		return fmt.Errorf("%d calls failed", n)
	}
	return nil
}

// counter counts the refusals of a provider.
type counter struct {
	base http.RoundTripper
	n    atomic.Int32
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		c.n.Add(1)
	}
	return resp, err
}
