package apicall

import "net/http"

// Anthropic is Anthropic's token counting
// (https://platform.claude.com/docs/en/api/messages/count_tokens, read 2026-11-22).
var Anthropic = &CountAPI{
	base: "https://api.anthropic.com",
	path: func(string) string { return "/v1/messages/count_tokens" },
	header: func(h http.Header, key string) {
		h.Set("anthropic-version", "2023-06-01")
		if key != "" {
			h.Set("x-api-key", key)
		}
	},
	body: func(model, text string) any {
		message := map[string]any{"role": "user", "content": text}
		return map[string]any{"model": model, "messages": []any{message}}
	},
	total: inputTokens,
}

// inputTokens is the total in the replies of Anthropic and OpenAI.
const inputTokens = "input_tokens"

// messagesFields are what count_tokens takes of the body of a Messages call, those of betas last.
// Anthropic refuses others, such as max_tokens.
var messagesFields = []string{
	"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control",
	"context_management", "mcp_servers", "output_format", "speed",
}

// messagesCount returns the count of a Messages call.
func messagesCount(path string, body fields) (count, error) {
	return count{path: path + "/count_tokens", body: body.only(messagesFields...), total: inputTokens}, nil
}
