package llmhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// BenchmarkTransport is what a call costs without a network, bare and through a Transport.
// internal/bench has the same over loopback.
func BenchmarkTransport(b *testing.B) {
	header := http.Header{
		"Content-Type":                   {"application/json"},
		"X-Ratelimit-Limit-Requests":     {"5000"},
		"X-Ratelimit-Remaining-Requests": {"4999"},
		"X-Ratelimit-Reset-Requests":     {"12ms"},
		"X-Ratelimit-Limit-Tokens":       {"4000000"},
		"X-Ratelimit-Remaining-Tokens":   {"3999900"},
		"X-Ratelimit-Reset-Tokens":       {"1ms"},
	}
	answer := `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 40) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":25,"completion_tokens":40,"total_tokens":65}}`
	bare := base(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
	})
	body := `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("x", 100) + `"}]}`
	for _, test := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", bare},
		{"ours", &llmhttp.Transport{Limiter: newLimiter(b, ratelimit.ModelQuota{MaxRPM: 100_000_000, MaxTPM: 2_000_000_000}), Base: bare}},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			piece := make([]byte, 4096)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, chatURL, strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := test.rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(piece)
				}
				resp.Body.Close()
			}
		})
	}
}
