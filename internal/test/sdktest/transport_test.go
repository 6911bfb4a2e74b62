package sdktest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// books is what a transport says that it settled.
type books struct {
	mu       sync.Mutex
	charged  ratelimit.Usage // at admission
	settled  ratelimit.Usage
	reported llmhttp.Usage
	sources  map[llmhttp.Source]int
	events   map[llmhttp.EventKind]int
}

func newBooks() *books {
	return &books{sources: make(map[llmhttp.Source]int), events: make(map[llmhttp.EventKind]int)}
}

func (b *books) event(e llmhttp.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events[e.Kind]++
	if e.Kind == llmhttp.EventSettled {
		b.sources[e.Source]++
		b.charged.PromptTokens += e.Charged.PromptTokens
		b.charged.OutputTokens += e.Charged.OutputTokens
		b.settled.PromptTokens += e.Settled.PromptTokens
		b.settled.OutputTokens += e.Settled.OutputTokens
		b.reported.Prompt += e.Reported.Prompt
		b.reported.CacheRead += e.Reported.CacheRead
		b.reported.CacheWrite += e.Reported.CacheWrite
		b.reported.Output += e.Reported.Output
		b.reported.Thoughts += e.Reported.Thoughts
	}
}

// end waits for events that are under way on goroutines of their own, as those of contexts
// that ended. None come after it in a bubble where nothing goes on.
func (b *books) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
}

// limiter returns one that knows the limits of a scenario, as its user would set them.
func (s scenario) limiter(t *testing.T) *ratelimit.RateLimiter {
	t.Helper()
	_, limits := s.limits()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"),
		Quotas: map[string]ratelimit.ModelQuota{model: {
			MaxRPM: limits[fakeprovider.RPM], MaxTPM: limits[fakeprovider.TPM], MaxRPD: limits[fakeprovider.RPD],
			MaxITPM: limits[fakeprovider.ITPM], MaxOTPM: limits[fakeprovider.OTPM],
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// same reports whether the books say what the provider counted, to the token.
func (s scenario) same(b *books, r result) bool {
	counted, used := r.stats.Counted, r.stats.Reported
	told := llmhttp.Usage{Prompt: used.Prompt, CacheRead: used.CacheRead, CacheWrite: used.CacheWrite, Output: used.Output}
	ok := b.settled.PromptTokens == counted[fakeprovider.ITPM] && b.settled.OutputTokens == counted[fakeprovider.OTPM]
	switch s.api.provider {
	case "anthropic":
		told.Prompt -= used.CacheRead + used.CacheWrite
	case "gemini":
		told.Output -= used.Thoughts
		ok = b.settled.PromptTokens == counted[fakeprovider.TPM] && b.settled.OutputTokens == 0
	}
	got := b.reported
	got.Thoughts = 0
	if s.api.embeds {
		told.CacheRead = 0 // embeddings do not say
	}
	return ok && got == told
}

// check runs a scenario through the transport, and checks what it promises.
func (s scenario) check(t *testing.T) {
	rl := s.limiter(t)
	defer rl.Close()
	b := newBooks()
	r := s.run(t, func(base http.RoundTripper) http.RoundTripper {
		return &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: b.event}
	})
	b.end()
	s.verify(t, rl, b, r)
	if r.open != 0 {
		t.Errorf("%d ends of connections left", r.open)
	}
	if got := rl.Stats(model); got.InFlight != 0 || got.Waiting != 0 {
		t.Errorf("left: %+v", got)
	}
}

// verify checks what the transport promises of a run where nothing went wrong.
func (s scenario) verify(t *testing.T, rl *ratelimit.RateLimiter, b *books, r result) {
	t.Helper()
	d, limits := s.limits()
	need := s.need(r)
	t.Logf("%v; the limit alone needs %v; %d of %v per window", r, need, limits[d], d)
	if r.failed != 0 {
		t.Errorf("%d calls failed, one with %v", r.failed, r.err)
	}
	if r.stats.Refused != 0 || r.stats.Requests != s.calls {
		t.Errorf("%d requests for %d calls, %d over the limit (%v)", r.stats.Requests, s.calls, r.stats.Refused, r.stats.Over)
	}
	if most := s.most(b, need); r.wall > most {
		t.Errorf("took %v, more than %v, which is 1.05 x %v at least", r.wall, most, need)
	}
	if need < 2*time.Minute {
		t.Errorf("the limit did not bind: %v", need)
	}
	if !s.same(b, r) || b.sources[llmhttp.SourceReported] != s.calls || len(b.sources) != 1 {
		t.Errorf("booked %+v of %+v by %v; the provider counted %+v", b.settled, b.reported, b.sources, r.stats)
	}
}

// most is how long a scenario may take that needs so long for the limit alone: 1.05 times
// that. Answers that may be much shorter than was allowed take longer: nobody knows
// how long they are before they are there, so a limiter must hold as much as is
// allowed for as long as they take. That part of the limit is lost.
func (s scenario) most(b *books, need time.Duration) time.Duration {
	most := float64(need) * 1.05
	if s.short {
		charged, settled := b.charged.PromptTokens+b.charged.OutputTokens, b.settled.PromptTokens+b.settled.OutputTokens
		if s.api.provider == "anthropic" {
			charged, settled = b.charged.OutputTokens, b.settled.OutputTokens
		}
		most *= 1 + (float64(charged)/float64(settled)-1)*s.length.Minutes()
	}
	return time.Duration(most)
}

// all returns the scenarios of an API with the transport.
func all(a *api) (list []scenario) {
	for i := range 1 << 5 {
		is := func(bit int) bool { return i>>bit&1 != 0 }
		s := scenario{api: a, retries: is(0), bucket: is(1), tokens: is(2), length: time.Millisecond, calls: 3 * perWindow}
		if is(3) {
			s.jitter = 50 * time.Millisecond
		}
		if is(4) {
			s.length = 20 * time.Second
		}
		list = append(list, s)
	}
	return list
}

// With the transport, whatever the SDK, the answers, the network and the way in which the
// provider enforces its limit: no request comes over it, no call fails, hardly any of it
// is left unused, and each token is booked. The short form takes three of the 32
// scenarios of each API, always the same.
func TestTransport(t *testing.T) {
	for i := range apis {
		scenarios := all(&apis[i])
		if !long() {
			r := rand.New(rand.NewPCG(uint64(i), 6))
			r.Shuffle(len(scenarios), func(i, j int) { scenarios[i], scenarios[j] = scenarios[j], scenarios[i] })
			scenarios = scenarios[:3]
		}
		for _, s := range scenarios {
			t.Run(s.String(), func(t *testing.T) { synctest.Test(t, s.check) })
		}
	}
}

// The other headers that the OpenAI dialect has.
func TestTransportDialects(t *testing.T) {
	for _, test := range []struct {
		name    string
		host    string
		headers fakeprovider.Headers
		tokens  bool
	}{
		{"Azure", "", fakeprovider.AzureHeaders, false},
		{"Azure, tokens", "", fakeprovider.AzureHeaders, true},
		{"Groq", "api.groq.com", fakeprovider.GroqHeaders, false},
		{"Groq, tokens", "api.groq.com", fakeprovider.GroqHeaders, true},
		{"Mistral", "", fakeprovider.MistralHeaders, true},
		{"none", "", fakeprovider.NoHeaders, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := scenario{api: &apis[0], host: test.host, headers: test.headers, tokens: test.tokens, jitter: 50 * time.Millisecond, length: time.Second, calls: 3 * perWindow}
			synctest.Test(t, s.check)
		})
	}
}

// An answer that comes just when the transport stops waiting for it to date the charge.
func TestTransportMargin(t *testing.T) {
	for i := range apis {
		s := scenario{api: &apis[i], length: 250 * time.Millisecond, calls: 3 * perWindow}
		t.Run(s.String(), func(t *testing.T) { synctest.Test(t, s.check) })
	}
}

// Answers that may be much shorter than was allowed, of which nobody knows more than
// what those before were.
func TestTransportShortAnswers(t *testing.T) {
	seeds := []uint64{3}
	if long() {
		seeds = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	}
	for i := range apis {
		if apis[i].embeds || apis[i].provider == "gemini" {
			continue // their output is not limited
		}
		for _, seed := range seeds {
			s := scenario{api: &apis[i], tokens: true, short: true, bucket: seed%2 == 0, length: 20 * time.Second, seed: seed, calls: 400}
			t.Run(fmt.Sprint(s, "/seed ", s.seed), func(t *testing.T) { synctest.Test(t, s.check) })
		}
	}
}
