package llmhttp_test

import (
	"encoding/json"
	"io"
	"net/http"
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
		{"who asked sees it", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, sse(text, usage, "[DONE]"), sse(text, usage, "[DONE]")},
		{"who does not want it is not counted by it", `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, sse(text, "[DONE]"), sse(text, "[DONE]")},
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
					if !json.Valid(body) {
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
