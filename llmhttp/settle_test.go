package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestSettledOnce(t *testing.T) {
	const usage = `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
	delta := `{"choices":[{"delta":{"content":"` + strings.Repeat("x", 400) + `"}}]}`
	for _, test := range []struct {
		name     string
		path     string
		response string
		read     func(t *testing.T, resp *http.Response, cancel func())
		in, out  int
		source   llmhttp.Source
	}{
		{"read to the end, then closed", "", sse(delta, usage, "[DONE]"), readAndClose, 11, 7, llmhttp.SourceReported},
		{"closed at [DONE], as SDKs do", "", sse(delta, usage, "[DONE]"), readOnce, 11, 7, llmhttp.SourceReported},
		{"without usage: the text", "", sse(delta, delta, "[DONE]"), readAndClose, 20, 200, llmhttp.SourceText},
		{"without usage, closed at [DONE]", "", sse(delta, delta, "[DONE]"), readOnce, 20, 200, llmhttp.SourceText},
		{"cut: the estimate", "", sse(delta), readOnce, 20, 256, llmhttp.SourceEstimate},
		{"cut after more than that", "", sse(slices.Repeat([]string{delta}, 15)...), readOnce, 20, 1500, llmhttp.SourceEstimate},
		{"closed unread", "", sse(delta, usage), func(_ *testing.T, resp *http.Response, _ func()) { resp.Body.Close() }, 20, 256, llmhttp.SourceEstimate},
		{"the context ends", "", sse(delta, usage), func(t *testing.T, _ *http.Response, cancel func()) { cancel() }, 20, 256, llmhttp.SourceEstimate},
		{"Anthropic, cut after its start: input is known", "/v1/messages", sse(`{"message":{"usage":{"input_tokens":25,"output_tokens":1}}}`), readOnce, 25, 256, llmhttp.SourceEstimate},
		{"Anthropic, ended by an error: the text", "/v1/messages", sse(`{"message":{"usage":{"input_tokens":25,"output_tokens":1}}}`, `{"delta":{"text":"`+strings.Repeat("x", 400)+`"}}`, `{"type":"error","error":{"type":"overloaded_error"}}`), readAndClose, 25, 100, llmhttp.SourceReported},
		{"JSON that is not read to the end", "", `{"usage":{"prompt_tokens":11,"completion_tokens":7}} `, readOnce, 11, 7, llmhttp.SourceReported},
		{"JSON that ends early", "", `{"usage":{"prompt_tok`, readAndClose, 20, 256, llmhttp.SourceEstimate},
		{"an empty answer", "", ``, readAndClose, 20, 256, llmhttp.SourceEstimate},
		{"usage that cannot be: -5", "", `{"usage":{"prompt_tokens":-5,"completion_tokens":7}}`, readAndClose, 20, 256, llmhttp.SourceEstimate},
		{"usage that cannot be: 1e300", "", `{"usage":{"prompt_tokens":5,"completion_tokens":1e300}}`, readAndClose, 20, 256, llmhttp.SourceEstimate},
		{"usage that cannot be: a string", "", `{"usage":{"prompt_tokens":"5","completion_tokens":7}}`, readAndClose, 20, 256, llmhttp.SourceEstimate},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
			settled := make(chan llmhttp.Event, 10)
			tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, test.response), OnEvent: func(e llmhttp.Event) {
				if e.Kind == llmhttp.EventSettled {
					settled <- e
				}
			}}
			url := chatURL
			if test.path != "" {
				url = "http://llm.test" + test.path
			}
			ctx, cancel := context.WithCancel(t.Context())
			body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 20) + `"}]}` // 80 bytes of text
			req, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			test.read(t, resp, cancel)
			e := <-settled
			resp.Body.Close()
			resp.Body.Close()
			cancel()
			s := rl.Stats("m")
			if test.in == 20 {
				test.in = e.Charged.PromptTokens
			}
			if s.ITPM != test.in || (s.OTPM != test.out && test.out != 0) || s.TPM == 0 || e.Source != test.source || s.InFlight != 0 {
				t.Errorf("settled by %q at %d in, %d out; want %q, %d, %d", e.Source, s.ITPM, s.OTPM, test.source, test.in, test.out)
			}
			if s.ITPM != e.Settled.PromptTokens || s.OTPM != e.Settled.OutputTokens {
				t.Errorf("the event says %+v, the limiter %+v", e.Settled, s)
			}
			if anomalies := tr.Anomalies(); (anomalies > 0) != strings.HasPrefix(test.name, "usage that cannot be") {
				t.Errorf("%d anomalies", anomalies)
			}
			if len(settled) > 0 {
				t.Error("settled twice")
			}
		})
	}
}

func readAndClose(t *testing.T, resp *http.Response, _ func()) { readAll(t, resp) }

// readOnce reads the bytes at hand, without reaching the end, and closes the body.
func readOnce(t *testing.T, resp *http.Response, _ func()) {
	if _, err := resp.Body.Read(make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// slowBody returns its lines a second apart until it is closed.
type slowBody struct {
	lines  []string
	once   sync.Once
	closed chan struct{}
}

func newSlowBody(lines ...string) *slowBody {
	return &slowBody{lines: lines, closed: make(chan struct{})}
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, errors.New("read on closed body")
	case <-time.After(time.Second):
	}
	if len(b.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.lines[0])
	b.lines = b.lines[1:]
	return n, nil
}

func (b *slowBody) Close() error { b.once.Do(func() { close(b.closed) }); return nil }

// An answer that is not read to its end is settled all the same.
func TestAbandonedBody(t *testing.T) {
	lines := slices.Repeat([]string{sse(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 4000) + `"}}]}`)}, 1000)
	for _, test := range []struct {
		name    string
		idle    time.Duration
		read    int           // lines
		timeout time.Duration // of the context
		after   time.Duration
		out     int // tokens, at least
	}{
		{"its context ends", 0, 3, time.Minute, time.Minute, 3000},
		{"ten minutes without a Read", 0, 3, 0, 3*time.Second + 10*time.Minute, 3000},
		{"or as long as MaxIdle says", time.Minute, 3, 0, 3*time.Second + time.Minute, 3000},
		{"not while it is read", 5 * time.Second, 20, 0, 25 * time.Second, 20000},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 10_000_000})
				var settled time.Time
				tr := &llmhttp.Transport{Limiter: rl, MaxIdle: test.idle, OnEvent: func(e llmhttp.Event) {
					if e.Kind == llmhttp.EventSettled {
						settled = time.Now()
					}
				}, Base: base(func(req *http.Request) (*http.Response, error) {
					resp := response(req, 200, "")
					resp.Body = newSlowBody(lines...)
					return resp, nil
				})}
				ctx, cancel := context.WithCancel(t.Context())
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), test.timeout)
				}
				defer cancel()
				began := time.Now()
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m","stream":true}`))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				for range test.read {
					resp.Body.Read(make([]byte, 8000))
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				// Abandoned answers are found by a check once in a while.
				if got := settled.Sub(began); got < test.after || got > test.after+max(test.idle, 10*time.Minute) && test.timeout == 0 {
					t.Errorf("settled after %v, want %v", got, test.after)
				}
				if s := rl.Stats("m"); s.InFlight != 0 {
					t.Errorf("still in flight: %+v", s)
				}
				resp.Body.Close()
			})
		})
	}
}

// An answer that is cut off within its usage reports only a part of it.
func TestCutWithinUsage(t *testing.T) {
	text := strings.Repeat("x", 8000)
	for _, test := range []struct{ name, path, request, answer string }{
		{"OpenAI", "/v1/chat/completions", `{"model":"m"}`, `{"choices":[{"message":{"content":"` + text + `"}}],"usage":{"prompt_tokens":11,`},
		{"Anthropic", "/v1/messages", `{"model":"m","max_tokens":5000}`, `{"content":[{"text":"` + text + `"}],"usage":{"input_tokens":11,"output_tok`},
		{"Ollama", "/api/chat", `{"model":"m"}`, `{"message":{"content":"` + text + `"},"done":false}` + "\n" + `{"done":true,"prompt_eval_count":11,"prompt_eval_dur`},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				resp := response(req, 200, "")
				resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(test.answer), &failing{io.ErrUnexpectedEOF}))
				return resp, nil
			})}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
			if s := rl.Stats("m"); s.ITPM != 11 || s.OTPM < 1000 {
				t.Errorf("charged %d in, %d out; want 11 and the text of 2000 or the estimate of 1000", s.ITPM, s.OTPM)
			}
		})
	}
}

// An answer is not idle while a Read waits.
func TestLongRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000, MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, MaxIdle: time.Minute, Base: base(func(req *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				time.Sleep(5 * time.Minute)
				io.WriteString(pw, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`)
				pw.Close()
			}()
			resp := response(req, 200, "")
			resp.Body = pr
			return resp, nil
		})}
		resp, err := post(t, tr, chatURL, `{"model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(4*time.Minute, func() {
			if s := rl.Stats("m"); s.InFlight != 1 {
				t.Errorf("while it is read: %+v", s)
			}
		})
		readAll(t, resp)
		time.Sleep(0)
		if s := rl.Stats("m"); s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// An absurd answer does not change the estimates of later calls. If it reports no usage, the charge
// stays at the estimate.
func TestAbsurdAnswers(t *testing.T) {
	for _, test := range []struct {
		name, start, letter string
		headers             []string
		estimate            bool
	}{
		{"a line of 64 MiB", `data: {"choices":[{"delta":{"content":"`, "x", []string{"Content-Type: text/event-stream"}, true},
		{"a string of 64 MiB", `{"choices":[{"message":{"content":"`, "x", nil, true},
		{"a usage of 1e12", `{"usage":{"prompt_tokens":1,"completion_tokens":1000000000000}}`, "", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
				var settled llmhttp.Event
				first := true
				tr := &llmhttp.Transport{Limiter: rl, OnEvent: func(e llmhttp.Event) {
					if e.Kind == llmhttp.EventSettled {
						settled = e
					}
				}, Base: base(func(req *http.Request) (*http.Response, error) {
					resp := response(req, 200, `{"usage":{"prompt_tokens":1,"completion_tokens":10}}`)
					if first {
						first = false
						resp = response(req, 200, "", test.headers...)
						rest := endlessBody("x", 64<<20)
						if test.letter == "" {
							rest = http.NoBody
						}
						resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(test.start), rest))
					}
					return resp, nil
				})}
				call := func() {
					t.Helper()
					resp, err := post(t, tr, chatURL, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
					if err != nil {
						t.Fatal(err)
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				call()
				if test.estimate && (settled.Settled != settled.Charged || settled.Source != llmhttp.SourceEstimate || tr.Anomalies() != 1) {
					t.Errorf("settled at %+v by %s, %d anomalies; charged before %+v", settled.Settled, settled.Source, tr.Anomalies(), settled.Charged)
				}
				began := time.Now()
				for range 20 {
					call()
				}
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("20 calls of 11 tokens then took %v of a quota of a million a minute; the last was charged %+v", took, settled.Charged)
				}
			})
		})
	}
}
