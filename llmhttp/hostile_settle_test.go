package llmhttp_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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

// A provider that lowers its limit does not refuse for ever who waits with an estimate that
// was cut to the higher one.
func TestQuotaShrinksWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}}})
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			time.Sleep(time.Second)
			return response(req, 200, `{"usage":{"prompt_tokens":400,"completion_tokens":1}}`, "X-Ratelimit-Limit-Tokens: 800"), nil
		})}
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 2000) + `"}]}`
		statuses := make(chan int, 2)
		for range 2 {
			go func() {
				resp, err := post(t, tr, chatURL, body)
				if err != nil {
					t.Error(err)
					statuses <- 0
					return
				}
				readAll(t, resp)
				statuses <- resp.StatusCode
			}()
			synctest.Wait()
		}
		if a, b := <-statuses, <-statuses; a != 200 || b != 200 {
			t.Errorf("answered %d and %d", a, b)
		}
	})
}

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

// A model's name that is long or strange is no free pass.
func TestOddModelNames(t *testing.T) {
	for _, name := range []string{
		strings.Repeat("x", 10_000),
		strings.Repeat("x", 251) + `\u00e4\u00e4\u00e4`,
		strings.Repeat("x", 255) + `\n`,
		`a\u0000b\n`,
	} {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
		sent := 0
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Millisecond, Base: base(func(req *http.Request) (*http.Response, error) {
			sent++
			return response(req, 200, "{}"), nil
		})}
		for range 3 {
			resp, err := post(t, tr, chatURL, `{"model":"`+name+`"}`)
			if err != nil {
				t.Fatal(err)
			}
			if text := readAll(t, resp); len(text) > 1500 || strings.ContainsAny(text, "\n\x00") {
				t.Errorf("the refusal has %d bytes", len(text))
			}
		}
		if sent != 1 {
			t.Errorf("%d of 1 were sent of the model %.10q... of %d bytes", sent, name, len(name))
		}
	}
}

// The chunk that was asked for is hidden however the answer comes.
func TestHiddenChunk(t *testing.T) {
	const (
		text  = `{"choices":[{"delta":{"content":"Hi"}}],"usage":null}`
		usage = `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		events := []string{text, "[DONE]"}
		if bytes.Contains(body, []byte("include_usage")) {
			events = []string{text, usage, "[DONE]"}
		}
		answer := []byte(sse(events...))
		if r.Header.Get("X-Type") != "none" {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header()["Content-Type"] = nil
		}
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			z.Write(answer)
			z.Close()
			answer = zipped.Bytes()
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Write(answer) // with its Content-Length, as it is short
	}))
	defer server.Close()
	for _, test := range []struct{ name, encoding, contentType string }{
		{"as http.Transport has it", "", ""},
		{"plain, with a length", "identity", ""},
		{"compressed, as the caller wants it", "gzip", ""},
		{"without a type", "identity", "none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
			tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true}
			defer tr.CloseIdleConnections()
			req, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true}`))
			if test.encoding != "" {
				req.Header.Set("Accept-Encoding", test.encoding)
			}
			req.Header.Set("X-Type", test.contentType)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			n, header := resp.ContentLength, resp.Header.Get("Content-Length")
			raw := readAll(t, resp)
			if n >= 0 && n != int64(len(raw)) || header != "" && n < 0 {
				t.Errorf("ContentLength %d, header %q, of a body of %d", n, header, len(raw))
			}
			got := raw
			if resp.Header.Get("Content-Encoding") == "gzip" {
				z, err := gzip.NewReader(strings.NewReader(raw))
				if err != nil {
					t.Fatal(err)
				}
				plain, _ := io.ReadAll(z)
				got = string(plain)
			}
			if want := sse(text, "[DONE]"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("through a reverse proxy", func(t *testing.T) {
		target, _ := url.Parse(server.URL)
		tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{}), AddStreamUsage: true}
		defer tr.CloseIdleConnections()
		proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: tr})
		defer proxy.Close()
		req, _ := http.NewRequest("POST", proxy.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true}`))
		req.Header.Set("Accept-Encoding", "identity")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != sse(text, "[DONE]") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// An error in a stream is not hidden.
func TestErrorIsNotHidden(t *testing.T) {
	answer := sse(`{"error":{"message":"server had an error"},"usage":{"prompt_tokens":1,"completion_tokens":0}}`)
	rl := newLimiter(t, ratelimit.ModelQuota{})
	tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Base: reply(200, answer, "Content-Type: text/event-stream")}
	resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, resp); got != answer {
		t.Errorf("got %q", got)
	}
}
