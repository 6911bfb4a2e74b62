package llmhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func ExampleClassify() {
	resp := &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header:     http.Header{"Retry-After": {"2"}},
		Body:       io.NopCloser(strings.NewReader(`{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`)),
	}
	if p := llmhttp.Classify(resp); p != nil {
		fmt.Println(p)
	}
	// The body is still there for whoever reads the answer.
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(len(body), "bytes")
	// Output:
	// provider: rate limited (429 rate_limit_exceeded), again in 2s
	// 56 bytes
}

func ExampleClassify_errors() {
	call := func() error {
		resp := &http.Response{
			StatusCode: http.StatusTooManyRequests,
			Body:       io.NopCloser(strings.NewReader(`{"error":{"code":"insufficient_quota"}}`)),
		}
		if p := llmhttp.Classify(resp); p != nil {
			return fmt.Errorf("summarize: %w", p)
		}
		return nil
	}

	err := call()
	if errors.Is(err, llmhttp.ErrExhausted) {
		fmt.Println("no wait helps")
	}
	var p *llmhttp.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code)
	}
	// Output:
	// no wait helps
	// 429 insufficient_quota
}
