package fakeprovider

import (
	"encoding/json"
	"time"
)

// ollama returns an answer, or a part of one, with a text.
func (x *exchange) ollama(text string, done bool) json.RawMessage {
	pairs := []any{"model", x.call.Model, "created_at", time.Now().UTC().Format(time.RFC3339Nano)}
	if x.call.Operation == "api/chat" {
		pairs = append(pairs, "message", object("role", "assistant", "content", text))
	} else {
		pairs = append(pairs, "response", text)
	}
	pairs = append(pairs, "done", done)
	if done {
		pairs = append(pairs, "done_reason", x.finish(), "total_duration", int64(4_883_583_458), "load_duration", 1_334_875,
			"prompt_eval_count", x.count(x.answer.Prompt), "prompt_eval_duration", 342_546_000,
			"eval_count", x.count(x.answer.Output), "eval_duration", int64(4_535_599_000))
	}
	return object(pairs...)
}

func (x *exchange) streamOllama() {
	for i := range x.answer.Chunks {
		if !x.write(append(x.ollama(x.part(i), false), '\n')) {
			return
		}
	}
	x.tells, x.last = true, true
	x.write(append(x.ollama("", true), '\n'))
}
