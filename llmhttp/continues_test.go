package llmhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The prompt of a call that continues one at the server is more than its text, and so teaches
// nothing about texts. Other calls do.
func TestContinuedCallsTeachNothing(t *testing.T) {
	const words = "hello, hello, hello, hello, hello, hello, hello, hello, hello, hello"
	for _, test := range []struct {
		name, path, field string
		teaches           bool
	}{
		{"responses", "/v1/responses", `"x":1`, true},
		{"no previous response", "/v1/responses", `"previous_response_id":null`, true},
		{"previous response", "/v1/responses", `"previous_response_id":"resp_1"`, false},
		{"conversation", "/v1/responses", `"conversation":"conv_1"`, false},
		{"conversation by its id", "/v1/responses", `"conversation":{"id":"conv_1"}`, false},
		{"stored prompt", "/v1/responses", `"prompt":{"id":"pmpt_1"}`, false},
		{"chat", "/v1/chat/completions", `"conversation":"conv_1"`, true},
		{"interactions", "/v1beta/interactions", `"x":1`, true},
		{"previous interaction", "/v1beta/interactions", `"previous_interaction_id":"v1_1"`, false},
		{"Mistral's conversation", "/v1/conversations", `"x":1`, true},
		{"a later turn of it", "/v1/conversations/conv_1", `"x":1`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1000}}})
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				io.Copy(io.Discard, req.Body)
				return response(req, 200, `{"status":"completed","usage":{"prompt_tokens":5000,"input_tokens":5000,"total_input_tokens":5000,"output_tokens":1,"completion_tokens":1,"total_output_tokens":1}}`), nil
			})}
			for range 20 {
				body := fmt.Sprintf(`{"model":"m","input":%q,"inputs":%q,%s}`, words, words, test.field)
				resp, err := post(t, tr, "http://llm.test"+test.path, body)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
			}
			if got := rl.Estimate("m").Correct(100); (got > 150) != test.teaches {
				t.Errorf("a text of 100 tokens is estimated at %d", got)
			}
		})
	}
}
