package fakeprovider

import (
	"encoding/json"
	"time"
)

// openAIUsage returns the usage of chat completions and completions.
func (x *exchange) openAIUsage() json.RawMessage {
	u := x.answer.Usage
	return object(
		"prompt_tokens", x.count(u.Prompt), "completion_tokens", x.count(u.Output), "total_tokens", x.count(u.Prompt+u.Output),
		"prompt_tokens_details", object("cached_tokens", x.count(u.CacheRead), "audio_tokens", 0),
		"completion_tokens_details", object("reasoning_tokens", x.count(u.Thoughts), "audio_tokens", 0,
			"accepted_prediction_tokens", 0, "rejected_prediction_tokens", 0),
	)
}

func (x *exchange) finish() string {
	if x.full() {
		return "length"
	}
	return "stop"
}

func (x *exchange) chat() json.RawMessage {
	return object("id", "chatcmpl-"+x.id(), "object", "chat.completion", "created", time.Now().Unix(), "model", x.call.Model,
		"choices", list(object("index", 0,
			"message", object("role", "assistant", "content", x.text(), "refusal", nil, "annotations", []string{}),
			"logprobs", nil, "finish_reason", x.finish())),
		"usage", x.openAIUsage(), "service_tier", "default", "system_fingerprint", "fp_44709d6fcb")
}

func (x *exchange) streamChat() {
	id := "chatcmpl-" + x.id()
	chunk := func(choices []json.RawMessage, usage any) bool {
		pairs := []any{"id", id, "object", "chat.completion.chunk", "created", time.Now().Unix(), "model", x.call.Model,
			"service_tier", "default", "system_fingerprint", "fp_44709d6fcb", "choices", choices}
		if x.call.StreamUsage {
			pairs = append(pairs, "usage", usage)
		}
		return x.event("", object(pairs...))
	}
	choice := func(delta json.RawMessage, finish any) []json.RawMessage {
		return list(object("index", 0, "delta", delta, "logprobs", nil, "finish_reason", finish))
	}
	if !chunk(choice(object("role", "assistant", "content", "", "refusal", nil), nil), nil) {
		return
	}
	for i := range x.answer.Chunks {
		if !chunk(choice(object("content", x.part(i)), nil), nil) {
			return
		}
	}
	x.endStream(func() bool { return chunk(choice(object(), x.finish()), nil) }, func() bool { return chunk(list(), x.openAIUsage()) })
}

// endStream writes the last events of a stream of chat completions or completions.
func (x *exchange) endStream(last, usage func() bool) {
	if !last() {
		return
	}
	if x.call.StreamUsage {
		x.tells = true
		if !usage() {
			return
		}
	}
	x.last = true
	x.event("", json.RawMessage("[DONE]"))
}

func (x *exchange) completion() json.RawMessage {
	return object("id", "cmpl-"+x.id(), "object", "text_completion", "created", time.Now().Unix(), "model", x.call.Model,
		"choices", list(object("text", x.text(), "index", 0, "logprobs", nil, "finish_reason", x.finish())),
		"usage", x.openAIUsage())
}

func (x *exchange) streamCompletion() {
	id := "cmpl-" + x.id()
	chunk := func(choices []json.RawMessage, usage any) bool {
		pairs := []any{"id", id, "object", "text_completion", "created", time.Now().Unix(), "choices", choices, "model", x.call.Model}
		if x.call.StreamUsage {
			pairs = append(pairs, "usage", usage)
		}
		return x.event("", object(pairs...))
	}
	choice := func(text string, finish any) []json.RawMessage {
		return list(object("text", text, "index", 0, "logprobs", nil, "finish_reason", finish))
	}
	for i := range x.answer.Chunks {
		if !chunk(choice(x.part(i), nil), nil) {
			return
		}
	}
	x.endStream(func() bool { return chunk(choice("", x.finish()), nil) }, func() bool { return chunk(list(), x.openAIUsage()) })
}

func (x *exchange) embeddings() json.RawMessage {
	var data []json.RawMessage
	for i := range x.call.Inputs {
		data = append(data, object("object", "embedding", "index", i, "embedding", []float64{x.call.Rand.Float64(), -x.call.Rand.Float64(), 0.5}))
	}
	return object("object", "list", "data", data, "model", x.call.Model,
		"usage", object("prompt_tokens", x.count(x.answer.Prompt), "total_tokens", x.count(x.answer.Prompt)))
}

// response returns the response of the Responses API with the given status.
func (x *exchange) response(status string) json.RawMessage {
	var output []json.RawMessage
	var usage, incomplete, failure any
	if status == "completed" && x.full() {
		status, incomplete = "incomplete", object("reason", "max_output_tokens")
	}
	switch status {
	case "failed":
		failure = object("code", "server_error", "message", "The model failed to generate a response.")
	case "completed", "incomplete":
		u := x.answer.Usage
		usage = object("input_tokens", x.count(u.Prompt), "input_tokens_details", object("cached_tokens", x.count(u.CacheRead)),
			"output_tokens", x.count(u.Output), "output_tokens_details", object("reasoning_tokens", x.count(u.Thoughts)),
			"total_tokens", x.count(u.Prompt+u.Output))
		output = list(x.outputItem("completed", x.text()))
	}
	return object("id", "resp_0", "object", "response", "created_at", time.Now().Unix(), "status", status,
		"error", failure, "incomplete_details", incomplete, "instructions", nil, "max_output_tokens", nil, "model", x.call.Model,
		"output", output, "parallel_tool_calls", true, "previous_response_id", nil,
		"reasoning", object("effort", nil, "summary", nil), "store", true, "temperature", 1.0,
		"text", object("format", object("type", "text")), "tool_choice", "auto", "tools", list(), "top_p", 1.0, "truncation", "disabled",
		"usage", usage, "user", nil, "metadata", object())
}

func (x *exchange) outputItem(status, text string) json.RawMessage {
	content := list()
	if status == "completed" {
		content = list(outputText(text))
	}
	return object("id", "msg_0", "type", "message", "status", status, "role", "assistant", "content", content)
}

func outputText(text string) json.RawMessage {
	return object("type", "output_text", "text", text, "annotations", list(), "logprobs", list())
}

func (x *exchange) streamResponse() {
	event := func(name string, pairs ...any) bool {
		return x.event(name, object(append([]any{"type", name, "sequence_number", x.events}, pairs...)...))
	}
	where := []any{"item_id", "msg_0", "output_index", 0, "content_index", 0}
	at := func(pairs ...any) []any { return append(where[:len(where):len(where)], pairs...) }
	if !event("response.created", "response", x.response("in_progress")) ||
		!event("response.in_progress", "response", x.response("in_progress")) ||
		!event("response.output_item.added", "output_index", 0, "item", x.outputItem("in_progress", "")) ||
		!event("response.content_part.added", at("part", outputText(""))...) {
		return
	}
	for i := range x.answer.Chunks {
		if !event("response.output_text.delta", at("delta", x.part(i), "logprobs", list(), "obfuscation", "x8Zk")...) {
			return
		}
	}
	if !event("response.output_text.done", at("text", x.text(), "logprobs", list())...) ||
		!event("response.content_part.done", at("part", outputText(x.text()))...) ||
		!event("response.output_item.done", "output_index", 0, "item", x.outputItem("completed", x.text())) {
		return
	}
	name := "response.completed"
	if x.full() {
		name = "response.incomplete"
	}
	x.tells, x.last = true, true
	event(name, "response", x.response("completed"))
}
