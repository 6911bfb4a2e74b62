// Package sdktest drives the real SDKs of OpenAI, Anthropic and Google against a fake
// provider that enforces its limits, in virtual time.
package sdktest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// long reports whether the tests are to take the time that they could use.
func long() bool { return os.Getenv("RATELIMIT_LONG") != "" }

const (
	goroutines = 50
	maxTokens  = 100 // that each call allows as output
	perWindow  = 30  // calls, where requests are limited
)

// A scenario is many calls of a program that does not look after limits by itself.
type scenario struct {
	api     *api
	retries bool          // the SDK's
	jitter  time.Duration // of the network, each way
	bucket  bool          // the provider enforces by a token bucket instead of a sliding window
	length  time.Duration // how long an answer takes
	tokens  bool          // tokens are limited instead of requests
	short   bool          // the output may be much shorter than allowed
	headers fakeprovider.Headers
	count   fakeprovider.Count
	host    string // of the provider; empty is one that says nothing
	seed    uint64
	calls   int

	// fault changes what a call is answered, and context is the context of call i;
	// nil is none.
	fault   func(*fakeprovider.Call, *fakeprovider.Answer)
	context func(i int) (context.Context, context.CancelFunc)
}

func (s scenario) String() string {
	word := func(b bool, yes, no string) string {
		if b {
			return yes
		}
		return no
	}
	return fmt.Sprintf("%s/retries %s/jitter %v/%s/answers of %v/limited %s", s.api.name, word(s.retries, "on", "off"), s.jitter,
		word(s.bucket, "bucket", "sliding"), s.length, word(s.tokens, "tokens", "requests"))
}

// limits returns what limits the scenario, and how much that is. Tokens are limited so that
// 90 calls, which use 300 tokens of prompt and 95 of output on average, need 2.7 windows.
// The other dimensions have limits, too, which do not bind.
func (s scenario) limits() (d fakeprovider.Dimension, limits fakeprovider.Limits) {
	limits = fakeprovider.Limits{fakeprovider.RPM: 10_000, fakeprovider.RPD: 100_000}
	d = fakeprovider.TPM
	limit := 10_000
	switch {
	case s.api.provider == "anthropic":
		limits[fakeprovider.ITPM], d, limit = 1_000_000, fakeprovider.OTPM, 3160
	case s.api.provider == "openai" && !s.api.embeds:
		limit = 13_200
	}
	limits[d] = limit
	if !s.tokens {
		limits[d] = 1_000_000
		d = fakeprovider.RPM
		limits[d] = perWindow
	}
	return d, limits
}

// answer is what the fake answers: a token for four characters of the prompt, a part of
// them from a cache, and nearly all of the output that is allowed, or with short half to all.
func (s scenario) answer(c *fakeprovider.Call) fakeprovider.Answer {
	a := fakeprovider.Answer{Delay: s.length}
	a.Prompt = (c.Characters + 3) / 4
	a.CacheRead = a.Prompt / 4 * c.Rand.IntN(2)
	least := maxTokens * 9 / 10
	if s.short {
		least = maxTokens / 2
	}
	a.Output = least + c.Rand.IntN(maxTokens-least+1)
	a.Thoughts = c.Rand.IntN(maxTokens / 2)
	if s.fault != nil {
		s.fault(c, &a)
	}
	return a
}

// A result is how a scenario went.
type result struct {
	wall   time.Duration
	failed int   // calls
	err    error // of one that failed
	stats  fakeprovider.Stats
	open   int // ends of connections that are left when idle ones are closed
}

func (r result) String() string {
	return fmt.Sprintf("%v, %d requests, %d over the limit, %d calls failed, %d connections left",
		r.wall.Round(time.Millisecond), r.stats.Requests, r.stats.Refused, r.failed, r.open/2)
}

// need is how long the limit alone makes the calls take. They come in windows of 60 s:
// each takes all that the limit allows at its beginning, and the last one, which may not be full,
// then lasts as long as an answer does. The margin of the transport, 250 ms
// for each window, is not in it.
func (s scenario) need(r result) time.Duration {
	d, limits := s.limits()
	windows := (r.stats.Counted[d] + limits[d] - 1) / limits[d]
	return time.Duration(windows-1)*time.Minute + s.length
}

// provider returns the fake that a scenario needs.
func (s scenario) provider() *fakeprovider.Server {
	_, limits := s.limits()
	enforcement := fakeprovider.SlidingWindow
	if s.bucket {
		enforcement = fakeprovider.TokenBucket
	}
	return fakeprovider.New(fakeprovider.Options{Seed: s.seed, Jitter: s.jitter, Headers: s.headers, Answer: s.answer},
		map[string]fakeprovider.Config{model: {Limits: limits, Enforcement: enforcement, Count: s.count}})
}

// run runs a scenario in a bubble: its SDK sends through what wrap makes of a plain transport.
func (s scenario) run(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) result {
	t.Helper()
	fake, network := s.provider(), fakeprovider.NewNetwork()
	stop := network.Serve(fake)
	base := network.Transport()
	r := s.drive(t, fake, "http://"+cmp.Or(s.host, "provider.test"), wrap(base))
	base.CloseIdleConnections()
	time.Sleep(time.Second) // until the server has seen that
	r.open = network.Open()
	stop()
	return r
}

// drive makes the calls of a scenario through a transport.
func (s scenario) drive(t *testing.T, fake *fakeprovider.Server, address string, transport http.RoundTripper) (r result) {
	t.Helper()
	call, err := s.api.client(&http.Client{Transport: transport}, address, s.retries)
	if err != nil {
		t.Fatal(err)
	}
	work := make(chan int, s.calls)
	for i := range s.calls {
		work <- i
	}
	close(work)
	start := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range work {
				ctx, cancel := context.Background(), func() {}
				if s.context != nil {
					ctx, cancel = s.context(i)
				}
				err := call(ctx, prompt(i), maxTokens)
				cancel()
				if err != nil {
					mu.Lock()
					r.failed++
					r.err = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	r.wall = time.Since(start)
	r.stats = fake.Stats(model)
	return r
}

// prompt returns the prompt of call i: 600 to 1800 characters.
func prompt(i int) string {
	const words = "Tell me about limits. "
	return strings.Repeat(words, 90)[:600+i*467%1201]
}
