package llmhttp_test

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// pipeListener serves connections of net.Pipe, which work in a bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }
func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Over http.Transport, no window of the provider has more calls than there may be: answers take long,
// connections are few, bodies are slow.
func TestProviderIsNeverOverrun(t *testing.T) {
	for _, test := range []struct {
		name   string
		conns  int
		answer time.Duration
		way    time.Duration // until the provider counts
	}{
		{"quick answers", 0, time.Millisecond, 0},
		{"answers of 20 s", 0, 20 * time.Second, 0},
		{"answers of 20 s, late counted", 0, 20 * time.Second, 200 * time.Millisecond},
		{"one connection", 1, 7 * time.Second, 0},
		{"answers of 90 s", 0, 90 * time.Second, 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rpm, calls = 5, 25
				var mu sync.Mutex
				var arrived []time.Time
				l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					time.Sleep(test.way)
					mu.Lock()
					arrived = append(arrived, time.Now())
					mu.Unlock()
					time.Sleep(test.answer)
					io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
				})}
				go server.Serve(l)
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: rpm})
				under := &http.Transport{DialContext: l.dial, MaxConnsPerHost: test.conns, MaxIdleConnsPerHost: 100}
				tr := &llmhttp.Transport{Limiter: rl, Base: under}
				began := time.Now()
				var wg sync.WaitGroup
				for range calls {
					wg.Go(func() {
						resp, err := post(t, tr, chatURL, `{"model":"m"}`)
						if err != nil {
							t.Error(err)
							return
						}
						readAll(t, resp)
					})
				}
				wg.Wait()
				for i := rpm; i < len(arrived); i++ {
					if d := arrived[i].Sub(arrived[i-rpm]); d < time.Minute {
						t.Errorf("call %d came %v after call %d", i, d, i-rpm)
					}
				}
				least := (calls/rpm-1)*time.Minute + test.answer
				if test.conns == 0 {
					if took := time.Since(began); took > least+least/20+time.Second {
						t.Errorf("it took %v, %v would do", took, least)
					}
				}
				under.CloseIdleConnections()
				server.Close()
			})
		})
	}
}

// What a provider says that cannot be keeps nobody out for longer than a day.
func TestObserveExtremes(t *testing.T) {
	odd := []int{math.MinInt, -1, 0, 1, 1 << 40, 1<<40 + 1, math.MaxInt}
	times := []time.Duration{math.MinInt64, -1, 0, 1, time.Hour, math.MaxInt64}
	for _, learns := range []bool{false, true} {
		for _, limit := range odd {
			for _, left := range odd {
				for _, reset := range times {
					rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: learns, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxTPM: 100, MaxITPM: 100, MaxOTPM: 100, MaxRPD: 1000, MaxTPD: 1000}}})
					rl.RecordUsage("m", 3, 4)
					one := ratelimit.ProviderLimit{Limit: limit, Remaining: left, HasRemaining: true, Reset: reset, Rounding: limit}
					for _, sent := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Now().Add(1e6 * time.Hour), time.Unix(1<<40, 0)} {
						rl.Observe("m", ratelimit.ProviderLimits{
							RPM: one, TPM: one, ITPM: one, OTPM: one, RPD: one, TPD: one, SentAt: sent,
							Counted: ratelimit.ModelStats{RPM: left, TPM: left, ITPM: limit}, UncountedRequests: limit, Uncounted: ratelimit.Usage{PromptTokens: limit, OutputTokens: left},
						})
					}
					d := rl.Decide("m", 1)
					_, q, _ := rl.QuotaFor("m")
					if d.RetryAfter < 0 || d.RetryAfter > 24*time.Hour || q.MaxRPM > 10 || q.MaxTPM > 100 || q.MaxRPM < 1 || q.MaxTPD < 1 || q.MaxTPD > 1000 {
						t.Fatalf("limit %d, left %d, reset %v: %+v, %+v", limit, left, reset, d, q)
					}
				}
			}
		}
	}
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
				resp, err := post(t, tr, chatURL, `{"model":"m"}`)
				if err != nil {
					t.Error(err)
					return
				}
				readAll(t, resp)
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

// What OpenAI keeps, others on the same hosts do not.
func TestAzureKeepsOnlyOpenAIs(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxOTPM: 10_000})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"usage":{"input_tokens":10,"output_tokens":3}}`)}
	resp, err := post(t, tr, "https://x.services.ai.azure.com/anthropic/v1/messages", `{"model":"m","max_tokens":900}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if s := rl.Stats("m"); s.OTPM != 3 {
		t.Errorf("charged %d out, want 3", s.OTPM)
	}
}

// count_tokens is free on Vertex, too.
func TestCountTokensOnVertex(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"input_tokens":10}`)}
	resp, err := post(t, tr, "http://llm.test/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", `{"model":"claude-sonnet-4-5"}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if all := rl.AllStats(); len(all) != 0 {
		t.Errorf("charged: %v", all)
	}
}
