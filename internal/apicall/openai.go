package apicall

import (
	"fmt"
	"net/http"
)

// OpenAI is OpenAI's counting of input tokens
// (https://developers.openai.com/api/docs/guides/token-counting, read 2026-11-22).
var OpenAI = &CountAPI{
	base: "https://api.openai.com",
	path: func(string) string { return "/v1/responses/input_tokens" },
	header: func(h http.Header, key string) {
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	},
	body: func(model, text string) any {
		return map[string]any{"model": model, "input": text}
	},
	total: inputTokens,
}

// responsesFields are what input_tokens takes of the body of a Responses call (openai-go
// responses/inputtoken.go, read 2026-11-22).
var responsesFields = []string{
	"model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "truncation",
	"parallel_tool_calls", "previous_response_id", "conversation", "personality",
}

// responsesCount returns the count of a Responses call.
func responsesCount(path string, body fields) (count, error) {
	if body.has("prompt") { // a template on the server, which input_tokens does not take
		return count{}, fmt.Errorf("%w: prompt", ErrUnsupported)
	}
	return count{path: path + "/input_tokens", body: body.only(responsesFields...), total: inputTokens}, nil
}
