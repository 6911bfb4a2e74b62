package llmhttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestAddStreamUsage(t *testing.T) {
	const (
		text  = `{"choices":[{"delta":{"content":"Hi"}}],"usage":null}`
		usage = `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
		first = `{"choices":[],"prompt_filter_results":[]}`
	)
	for _, test := range []struct {
		name, body, sent, answer, got string
	}{
		{"asked for and hidden", `{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`, sse(text, usage, "[DONE]"), sse(text, "[DONE]")},
		{"beside other options", `{"model":"m","stream":true,"stream_options":{"x":1}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}}`, sse(text, usage, "[DONE]"), sse(text, "[DONE]")},
		{"in place of none", `{"model":"m","stream":true,"stream_options":{}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, sse(text, usage, "[DONE]"), sse(text, "[DONE]")},
		{"in place of null", `{"model":"m","stream":true,"stream_options":null}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, sse(text, usage, "[DONE]"), sse(text, "[DONE]")},
		{"Azure's first chunk stays", `{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`, sse(first, text, usage, "[DONE]"), sse(first, text, "[DONE]")},
		{"a caller that asked sees it", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, sse(text, usage, "[DONE]"), sse(text, usage, "[DONE]")},
		{"a caller that declined does not get it", `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, sse(text, "[DONE]"), sse(text, "[DONE]")},
		{"what is no JSON is left alone", `{"model":"m","stream":true,]`, `{"model":"m","stream":true,]`, `{}`, `{}`},
		{"no stream", `{"model":"m"}`, `{"model":"m"}`, `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`, `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, one := range []bool{false, true} {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
				tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Base: base(func(req *http.Request) (*http.Response, error) {
					body, _ := io.ReadAll(req.Body)
					if string(body) != test.sent || req.ContentLength != int64(len(body)) {
						t.Errorf("sent %s (%d), want %s", body, req.ContentLength, test.sent)
					}
					again, _ := req.GetBody()
					if second, _ := io.ReadAll(again); string(second) != test.sent {
						t.Errorf("GetBody gives %s", second)
					}
					if json.Valid([]byte(test.body)) != json.Valid(body) {
						t.Error("no JSON")
					}
					resp := response(req, 200, test.answer, "Content-Type: text/event-stream; charset=utf-8")
					if one {
						resp.Body = io.NopCloser(iotest.OneByteReader(resp.Body))
					}
					return resp, nil
				})}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, strings.NewReader(test.body))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if got := readAll(t, resp); got != test.got {
					t.Errorf("got %q, want %q", got, test.got)
				}
				if req.ContentLength != int64(len(test.body)) {
					t.Error("the caller's request was changed")
				}
				if s := rl.Stats("m"); strings.Contains(test.answer, "prompt_tokens") && (s.ITPM != 11 || s.OTPM != 7) {
					t.Errorf("charged %d in, %d out", s.ITPM, s.OTPM)
				}
			}
		})
	}
}

// The chunk with the usage is hidden in whatever encoding the answer arrives.
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
