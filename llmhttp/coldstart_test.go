package llmhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// 200 callers come at once to a model that nobody has called yet, with two seconds of patience. The
// provider has room for 60 of their calls.
func TestColdStart(t *testing.T) {
	const (
		callers, possible = 200, 60
		tpm               = 20_000
		prompt, output    = 80, 250 // what a call uses: 60 of them use 19,800
	)
	for _, test := range []struct{ name, path, more string }{
		{"OpenAI", "/v1/chat/completions", ""},
		{"OpenAI, streamed", "/v1/chat/completions", `,"stream":true,"stream_options":{"include_usage":true}`},
		{"OpenAI, with a cap", "/v1/chat/completions", `,"max_completion_tokens":300`},
		{"Anthropic", "/v1/messages", `,"max_tokens":1000`},
		{"Anthropic, streamed", "/v1/messages", `,"max_tokens":1000,"stream":true`},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, two transports: %v", test.name, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := fakeprovider.New(fakeprovider.Options{Jitter: 20 * time.Millisecond, Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
						return fakeprovider.Answer{
							Usage: fakeprovider.Usage{Prompt: prompt, Output: output},
							Delay: 300 * time.Millisecond, Spread: 300 * time.Millisecond,
						}
					}}, map[string]fakeprovider.Config{"m": {Limits: fakeprovider.Limits{fakeprovider.TPM: tpm}}})
					network := fakeprovider.NewNetwork()
					stop := network.Serve(server)
					defer stop()
					rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: tpm})
					transports := make([]*llmhttp.Transport, 1)
					if shared {
						transports = make([]*llmhttp.Transport, 2)
					}
					for i := range transports {
						transports[i] = &llmhttp.Transport{Limiter: rl, Base: network.Transport(), MaxWait: 2 * time.Second}
						defer transports[i].CloseIdleConnections()
					}
					body := `{"model":"m"` + test.more + `,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 56) + `"}]}`
					var answered, refused, late atomic.Int32
					began := time.Now()
					done := make(chan bool)
					for i := range callers {
						go func() {
							defer func() { done <- true }()
							req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://llm.test"+test.path, strings.NewReader(body))
							resp, err := transports[i%len(transports)].RoundTrip(req)
							if err != nil {
								t.Error(err)
								return
							}
							readAll(t, resp)
							switch {
							case resp.StatusCode == 200:
								answered.Add(1)
							case time.Since(began) > 2*time.Second+100*time.Millisecond:
								late.Add(1)
							default:
								refused.Add(1)
							}
						}()
					}
					for range callers {
						<-done
					}
					if s := server.Stats("m"); s.Refused != 0 {
						t.Errorf("the provider refused %d calls", s.Refused)
					}
					if n := answered.Load(); n < possible-2 || n > possible || refused.Load() != callers-n || late.Load() != 0 {
						t.Errorf("%d of %d possible calls were answered, %d refused in time, %d late", n, possible, refused.Load(), late.Load())
					}
					t.Logf("%d calls in 2 s, estimate %+v", answered.Load(), rl.Estimate("m"))
				})
			})
		}
	}
}

// FirstOutput is charged for a model that has not answered yet, no more than the request allows.
func TestFirstOutput(t *testing.T) {
	for _, test := range []struct {
		first int
		cap   string
		want  int
	}{
		{0, "", 256}, {-1, "", 256}, {700, "", 700}, {5, "", 5},
		{0, `"max_tokens":100,`, 100}, {0, `"max_tokens":1000,`, 256}, {700, `"max_tokens":100,`, 100},
	} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
		var charged int
		tr := &llmhttp.Transport{Limiter: rl, FirstOutput: test.first, Base: base(func(req *http.Request) (*http.Response, error) {
			charged = rl.Stats("m").OTPM
			return response(req, 200, `{}`), nil
		})}
		exchange(t, tr, "http://llm.test/v1/messages", `{`+test.cap+`"model":"m"}`)
		if charged != test.want {
			t.Errorf("FirstOutput %d with %q: charged %d, want %d", test.first, test.cap, charged, test.want)
		}
	}
}

// What a Transport learns belongs to the limiter.
func TestTransportsShareWhatTheyLearn(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
	var in, out int
	provider := base(func(req *http.Request) (*http.Response, error) {
		in, out = rl.Stats("m").ITPM, rl.Stats("m").OTPM
		return response(req, 200, `{"usage":{"input_tokens":150,"output_tokens":80}}`), nil
	})
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 371) + `"}]}` // 400 bytes, 100 tokens
	exchange(t, &llmhttp.Transport{Limiter: rl, Base: provider}, "http://llm.test/v1/messages", body)
	if in != 100 || out != 256 {
		t.Fatalf("the first call was charged %d and %d", in, out)
	}
	want := ratelimit.Estimate{Answers: 1, OutputTokens: 100, PromptPermille: 1500, ErrorP50: 333, ErrorP95: 333}
	if got := rl.Estimate("m"); got != want {
		t.Errorf("learned %+v, want %+v", got, want)
	}
	rl.Reset("m")
	exchange(t, &llmhttp.Transport{Limiter: rl, Base: provider}, "http://llm.test/v1/messages", body)
	if in != 150 || out != 100 {
		t.Errorf("the second call was charged %d and %d, want 150 and 100", in, out)
	}
}

// What an answer teaches of the estimate of prompts, and what it does not.
func TestCorrectionLearns(t *testing.T) {
	const text = `{"model":"m","messages":[{"role":"user","content":"0123456789012345678901234567890123456789012"}]}` // 72 bytes, 18 tokens
	for _, test := range []struct {
		name, path, body, answer string
		own                      bool
		want                     int // permille
	}{
		{"text", "/v1/messages", text, `{"usage":{"input_tokens":36,"output_tokens":1}}`, false, 2000},
		{"cached input counts", "/v1/messages", text, `{"usage":{"input_tokens":9,"cache_read_input_tokens":18,"cache_creation_input_tokens":9,"output_tokens":1}}`, false, 2000},
		{"OpenAI's input has the cached", "/v1/chat/completions", text, `{"usage":{"prompt_tokens":36,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":18}}}`, false, 2000},
		{"Gemini", "/v1beta/models/m:generateContent", text, `{"usageMetadata":{"promptTokenCount":36,"candidatesTokenCount":1}}`, false, 2000},
		{"an estimate of the program's own", "/v1/messages", text, `{"usage":{"input_tokens":36,"output_tokens":1}}`, true, 0},
		{"an image", "/v1/messages", `{"model":"m","messages":[{"content":[{"source":{"data":"` + strings.Repeat("A", 400) + `"}}]}]}`, `{"usage":{"input_tokens":36,"output_tokens":1}}`, false, 0},
		{"an answer without usage", "/v1/messages", text, `{}`, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
			tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, test.answer)}
			if test.own {
				tr.Estimate = func(*llmhttp.Call) (int, int) { return 18, 1 }
			}
			exchange(t, tr, "http://llm.test"+test.path, test.body)
			if got := rl.Estimate("m").PromptPermille; got < test.want-60 || got > test.want+60 {
				t.Errorf("a correction of %d, want %d", got, test.want)
			}
		})
	}
}

// A provider that charges by an estimate of its own is not charged less than that.
func TestCorrectionDoesNotLowerWhatIsNotRefunded(t *testing.T) {
	for _, refunds := range []bool{true, false} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
		for range 10 {
			rl.ObserveAnswer("m", ratelimit.Usage{PromptTokens: 100}, ratelimit.Usage{PromptTokens: 50, OutputTokens: 1})
		}
		var charged int
		tr := &llmhttp.Transport{Limiter: rl, NoRefund: !refunds, Base: base(func(req *http.Request) (*http.Response, error) {
			charged = rl.Stats("m").ITPM
			return response(req, 200, `{}`), nil
		})}
		exchange(t, tr, "http://llm.test/v1/messages", `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("x", 371)+`"}]}`)
		want := 100
		if refunds {
			want = 50
		}
		if charged != want {
			t.Errorf("refunds is %v: charged %d, want %d", refunds, charged, want)
		}
	}
}
