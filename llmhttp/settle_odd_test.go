package llmhttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// An answer that is cut within its usage tells only a part of it.
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

// A Read that waits long is a Read.
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

// An answer that no model writes does not change what later calls are charged, and where it
// tells no usage the estimate stands.
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

// The name under which a call is counted does not change what its provider counts.
func TestModelDoesNotChangeWhatCounts(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	tr := &llmhttp.Transport{
		Limiter: rl, Model: func(*llmhttp.Call) string { return "m" },
		Base: reply(200, `{"usage":{"input_tokens":10,"cache_read_input_tokens":1000,"output_tokens":3}}`),
	}
	resp, err := post(t, tr, "http://llm.test/v1/messages", `{"model":"claude-3-5-haiku-20241022","max_tokens":5}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if s := rl.Stats("m"); s.ITPM != 1010 {
		t.Errorf("charged %d in; Haiku 3.5 counts what is read from the cache: want 1010", s.ITPM)
	}
}
