package sdktest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A fault is something that goes wrong at the provider or the caller.
type fault struct {
	name    string
	retries bool
	fails   bool // calls fail by it, those without an SDK's retries at least
	answer  func(*fakeprovider.Call, *fakeprovider.Answer)
	context func(i int) (context.Context, context.CancelFunc)
}

// now reports whether something happens that happens once in so many calls.
func now(c *fakeprovider.Call, oneIn int) bool { return c.Rand.IntN(oneIn) == 0 }

var faults = []fault{
	{name: "answers that are cut", fails: true, answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) {
		if now(c, 4) {
			a.Cut = 1 + c.Rand.IntN(4)
		}
	}},
	{name: "answers that stall, and a context that ends", fails: true, answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) {
		if now(c, 4) {
			a.Stall = time.Hour
		}
	}, context: func(int) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 5*time.Minute)
	}},
	{name: "contexts that end any time", fails: true, answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) {
		a.Delay, a.Pause = time.Second/2, time.Second/2
	}, context: func(i int) (context.Context, context.CancelFunc) {
		after := rand.New(rand.NewPCG(uint64(i), 0)).Int64N(int64(10 * time.Second))
		return context.WithTimeout(context.Background(), time.Duration(after))
	}},
	{name: "refusals that nobody deserves", retries: true, answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) {
		if now(c, 16) {
			a.Status, a.Header = 429, map[string]string{"Retry-After": "3"}
		}
	}},
	{name: "failures", retries: true, answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) {
		if now(c, 16) {
			a.Status = []int{500, 503}[c.Rand.IntN(2)]
			if c.Dialect == fakeprovider.Anthropic && a.Status == 503 {
				a.Status = 529
			}
		}
	}},
	{name: "garbage", fails: true, answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) { a.Garbage = now(c, 4) }},
	{name: "wrong usage", answer: func(c *fakeprovider.Call, a *fakeprovider.Answer) {
		if now(c, 4) {
			a.WrongUsage = "-5"
		}
	}},
}

// Whatever goes wrong, no request comes over the limit, no less is booked than the
// provider counted, and nothing is left: no connection, no reservation, and no
// goroutine, without which the bubble would not end.
func TestTransportFaults(t *testing.T) {
	for i, f := range faults {
		for j := range apis {
			if !long() && (i+j)%3 != 0 {
				continue
			}
			s := scenario{api: &apis[j], retries: f.retries, length: time.Millisecond, jitter: 50 * time.Millisecond, calls: 3 * perWindow,
				tokens: j%2 == 0, fault: f.answer, context: f.context}
			t.Run(f.name+"/"+s.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl := s.limiter(t)
					defer rl.Close()
					b := newBooks()
					r := s.run(t, func(base http.RoundTripper) http.RoundTripper {
						return &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: b.event}
					})
					b.end()
					t.Logf("%v; %v; %v", r, b.sources, r.err)
					if r.stats.Refused != 0 {
						t.Errorf("%d requests over the limit: %v", r.stats.Refused, r.stats.Over)
					}
					if (r.failed > 0) != f.fails || r.failed == s.calls {
						t.Errorf("%d calls failed, one with %v", r.failed, r.err)
					}
					if r.open != 0 {
						t.Errorf("%d ends of connections left", r.open)
					}
					if got := rl.Stats(model); got.InFlight != 0 || got.Waiting != 0 {
						t.Errorf("left: %+v", got)
					}
					if b.events[llmhttp.EventAdmitted] != b.events[llmhttp.EventSettled] {
						t.Errorf("settled not once each: %v", b.events)
					}
					counted := r.stats.Counted
					prompt, output := counted[fakeprovider.ITPM], counted[fakeprovider.OTPM]
					if s.api.provider == "gemini" {
						prompt, output = counted[fakeprovider.TPM], 0
					}
					if b.settled.PromptTokens < prompt || b.settled.OutputTokens < output {
						t.Errorf("booked %+v by %v, less than %d and %d", b.settled, b.sources, prompt, output)
					}
				})
			})
		}
	}
}

// A real network has what the one in memory does not. The limits are too large to bind here.
func TestTransportLoopback(t *testing.T) {
	for i := range apis {
		s := scenario{api: &apis[i], retries: i%2 == 0, length: time.Millisecond, jitter: 5 * time.Millisecond, calls: 100}
		t.Run(s.api.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			fake := fakeprovider.New(fakeprovider.Options{Seed: 1, Jitter: s.jitter, Answer: s.answer, Gzip: true}, map[string]fakeprovider.Config{
				model: {Limits: fakeprovider.Limits{fakeprovider.RPM: 10_000, fakeprovider.TPM: 1_000_000}}})
			server := httptest.NewServer(fake)
			rl := s.limiter(t)
			rl.SetQuota(model, ratelimit.ModelQuota{MaxRPM: 10_000, MaxTPM: 1_000_000})
			b := newBooks()
			base := &http.Transport{MaxIdleConnsPerHost: goroutines}
			r := s.drive(t, fake, server.URL, &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: b.event})
			b.end()
			t.Log(r)
			if r.failed != 0 || r.stats.Refused != 0 || !s.same(b, r) {
				t.Errorf("%v, %v; booked %+v of %+v, the provider counted %+v", r, r.err, b.settled, b.reported, r.stats)
			}
			base.CloseIdleConnections()
			server.Close()
			rl.Close()
			for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					stacks := make([]byte, 1<<20)
					t.Fatalf("%d goroutines left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				}
			}
		})
	}
}
