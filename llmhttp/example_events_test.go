package llmhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// requestKey is the key of a request's name in a context.
type requestKey struct{}

// callLog prints the events of the limiter that belong to calls.
type callLog struct{}

func (callLog) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	if e.ID != 0 {
		fmt.Println(ctx.Value(requestKey{}), e.Kind, e.Requested)
	}
}

// Config.Events of the limiter learns of all that the Transport does with it, in the contexts of
// the requests. The IDs are those of OnEvent.
func ExampleTransport_limiterEvents() {
	server := exampleProvider()
	defer server.Close()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Events: callLog{},
		Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {MaxTPM: 30_000}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.WithValue(context.Background(), requestKey{}, "request 7:")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"gpt-4o","max_tokens":200,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := llmhttp.NewClient(rl).Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	// Output:
	// request 7: admitted gpt-4o
	// request 7: settled gpt-4o
}
