package fakeprovider

import "encoding/json"

// messageUsage returns the usage of a message with so many tokens of output.
func (x *exchange) messageUsage(output int) json.RawMessage {
	u := x.answer.Usage
	return object("input_tokens", x.count(u.Prompt-u.CacheRead-u.CacheWrite),
		"cache_creation_input_tokens", x.count(u.CacheWrite), "cache_read_input_tokens", x.count(u.CacheRead),
		"cache_creation", object("ephemeral_5m_input_tokens", x.count(u.CacheWrite), "ephemeral_1h_input_tokens", 0),
		"output_tokens", x.count(output), "service_tier", "standard")
}

func (x *exchange) stopReason() string {
	if x.full() {
		return "max_tokens"
	}
	return "end_turn"
}

func (x *exchange) messageOf(content []json.RawMessage, stop any, output int) json.RawMessage {
	return object("id", "msg_"+x.id(), "type", "message", "role", "assistant", "model", x.call.Model, "content", content,
		"stop_reason", stop, "stop_sequence", nil, "usage", x.messageUsage(output))
}

func (x *exchange) message() json.RawMessage {
	return x.messageOf(list(object("type", "text", "text", x.text())), x.stopReason(), x.answer.Output)
}

func (x *exchange) streamMessage() {
	event := func(name string, pairs ...any) bool {
		return x.event(name, object(append([]any{"type", name}, pairs...)...))
	}
	if !event("message_start", "message", x.messageOf(list(), nil, 1)) ||
		!event("content_block_start", "index", 0, "content_block", object("type", "text", "text", "")) ||
		!event("ping") {
		return
	}
	for i := range x.answer.Chunks {
		if !event("content_block_delta", "index", 0, "delta", object("type", "text_delta", "text", x.part(i))) {
			return
		}
	}
	if !event("content_block_stop", "index", 0) {
		return
	}
	x.tells = true
	if !event("message_delta", "delta", object("stop_reason", x.stopReason(), "stop_sequence", nil), "usage", x.messageUsage(x.answer.Output)) {
		return
	}
	x.last = true
	event("message_stop")
}

// tokens returns the answer to a request to count tokens.
func (x *exchange) tokens() json.RawMessage {
	n := (x.call.Characters + 3) / 4
	if x.call.Dialect == Anthropic {
		return object("input_tokens", n)
	}
	return object("totalTokens", n, "promptTokensDetails", list(object("modality", "TEXT", "tokenCount", n)))
}
