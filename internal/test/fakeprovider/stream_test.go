package fakeprovider

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func inBubble(t *testing.T, name string, do func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, do) })
}

// events returns the names and the data of the events of a stream, of any of the kinds.
func events(t *testing.T, text string) (names, data []string) {
	t.Helper()
	if strings.HasPrefix(text, "{") { // NDJSON
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		return make([]string, len(lines)), lines
	}
	for _, block := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		name := ""
		if rest, found := strings.CutPrefix(block, "event: "); found {
			name, block, _ = strings.Cut(rest, "\n")
		}
		line, found := strings.CutPrefix(block, "data: ")
		if !found || strings.Contains(line, "\n") {
			t.Fatalf("no event: %q", block)
		}
		names, data = append(names, name), append(data, line)
	}
	return names, data
}

func TestStreams(t *testing.T) {
	const deltas = "content_block_delta content_block_delta "
	for _, test := range []struct {
		name, path, body string
		events           string         // their names, or how many there are
		text             string         // where the text is
		index            int            // of the event to look at, from the end
		want             map[string]any // in it
		reports          int
	}{
		{"chat", "/v1/chat/completions", `{"model":"m","stream":true}`, "5", "choices.0.delta.content", 1, map[string]any{
			"object": "chat.completion.chunk", "choices.0.finish_reason": "stop", "usage": nil}, 0},
		{"chat with usage", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, "6", "choices.0.delta.content", 1, map[string]any{
			"choices": []any{}, "usage.prompt_tokens": 100, "usage.completion_tokens": 50, "usage.prompt_tokens_details.cached_tokens": 30}, 1},
		{"completions with usage", "/v1/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, "5", "choices.0.text", 1, map[string]any{
			"choices": []any{}, "usage.total_tokens": 150}, 1},
		{"responses", "/v1/responses", `{"model":"m","stream":true}`,
			"response.created response.in_progress response.output_item.added response.content_part.added response.output_text.delta response.output_text.delta " +
				"response.output_text.done response.content_part.done response.output_item.done response.completed", "delta", 0, map[string]any{
				"type": "response.completed", "sequence_number": 9, "response.status": "completed", "response.usage.input_tokens": 100, "response.usage.output_tokens": 50,
				"response.output.0.content.0.text": tokens40}, 1},
		{"responses that are cut off", "/v1/responses", `{"model":"m","stream":true,"max_output_tokens":50}`,
			"response.created response.in_progress response.output_item.added response.content_part.added response.output_text.delta response.output_text.delta " +
				"response.output_text.done response.content_part.done response.output_item.done response.incomplete", "delta", 0, map[string]any{
				"response.status": "incomplete", "response.usage.output_tokens": 50}, 1},
		{"messages: the start", "/v1/messages", `{"model":"m","stream":true}`,
			"message_start content_block_start ping " + deltas + "content_block_stop message_delta message_stop", "delta.text", 7, map[string]any{
				"message.usage.input_tokens": 50, "message.usage.cache_read_input_tokens": 30, "message.usage.cache_creation_input_tokens": 20,
				"message.usage.output_tokens": 1, "message.stop_reason": nil}, 1},
		{"messages: the end", "/v1/messages", `{"model":"m","stream":true}`,
			"message_start content_block_start ping " + deltas + "content_block_stop message_delta message_stop", "delta.text", 1, map[string]any{
				"delta.stop_reason": "end_turn", "usage.output_tokens": 50, "usage.input_tokens": 50}, 1},
		{"Gemini: the first", "/v1beta/models/m:streamGenerateContent?alt=sse", `{}`, "2", "candidates.0.content.parts.0.text", 1, map[string]any{
			"usageMetadata.promptTokenCount": 100, "usageMetadata.candidatesTokenCount": 20, "usageMetadata.thoughtsTokenCount": 10, "candidates.0.finishReason": nil}, 1},
		{"Gemini: the last", "/v1beta/models/m:streamGenerateContent?alt=sse", `{}`, "2", "candidates.0.content.parts.0.text", 0, map[string]any{
			"usageMetadata.promptTokenCount": 100, "usageMetadata.candidatesTokenCount": 40, "usageMetadata.totalTokenCount": 150, "candidates.0.finishReason": "STOP"}, 1},
		{"Ollama", "/api/chat", `{"model":"m"}`, "3", "message.content", 0, map[string]any{
			"done": true, "prompt_eval_count": 100, "eval_count": 50}, 1},
		{"Ollama, generate", "/api/generate", `{"model":"m"}`, "3", "response", 1, map[string]any{"done": false, "eval_count": nil}, 1},
	} {
		for _, zipped := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, zipped), func(t *testing.T) {
				resp, text, s := post(t, Options{Gzip: zipped}, Answer{Chunks: 2}, test.path, test.body)
				kind := "text/event-stream"
				if strings.HasPrefix(test.path, "/api") {
					kind = "application/x-ndjson"
				}
				if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != kind || resp.Uncompressed != zipped {
					t.Fatalf("%s, %v", resp.Status, resp.Header)
				}
				names, data := events(t, text)
				if kind == "text/event-stream" && strings.HasPrefix(test.name, "c") != (data[len(data)-1] == "[DONE]") {
					t.Error("[DONE] is where it should not be, or not where it should")
				}
				got := strings.Join(names, " ")
				if names[0] == "" {
					got = fmt.Sprint(len(names))
				}
				if got != test.events {
					t.Errorf("%s, want %s", got, test.events)
				}
				whole := ""
				for i, d := range data {
					if d == "[DONE]" {
						continue
					}
					if part, is := at(t, d, test.text).(string); is {
						whole += part
					}
					if names[i] != "" && at(t, d, "type") != names[i] {
						t.Errorf("an event %s has the type %v", names[i], at(t, d, "type"))
					}
				}
				if whole != tokens40 {
					t.Errorf("the text is %q", whole)
				}
				last := len(data) - 1
				if data[last] == "[DONE]" && test.index == 0 {
					last--
				}
				check(t, data[last-test.index], test.want)
				if got := s.Stats("m"); got.Reports != test.reports || got.Used != usage || got.Reports == 1 && got.Reported != usage {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// Without alt=sse, Gemini streams an array.
func TestGeminiArray(t *testing.T) {
	_, text, _ := post(t, Options{}, Answer{Chunks: 3}, "/v1beta/models/m:streamGenerateContent", `{}`)
	check(t, text, map[string]any{"2.usageMetadata.totalTokenCount": 150, "3": nil, "0.candidates.0.content.role": "model"})
}

func TestFaults(t *testing.T) {
	const chat = "/v1/chat/completions"
	const stream, whole = `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m"}`
	for _, test := range []struct {
		name       string
		path, body string
		answer     Answer
		contains   []string
		lacks      []string
		reports    int
	}{
		{"a stream that is cut", chat, stream, Answer{Cut: 2}, []string{"chat.completion.chunk", "unexpected EOF"}, []string{"[DONE]", "prompt_tokens"}, 0},
		{"an answer that is cut", chat, whole, Answer{Cut: 1}, []string{"unexpected EOF"}, []string{"usage"}, 0},
		{"OpenAI's error in a stream", chat, stream, Answer{Break: 2}, []string{`data: {"error":{`}, []string{"[DONE]", "unexpected EOF"}, 0},
		{"and of responses", "/v1/responses", stream, Answer{Break: 5}, []string{"event: response.failed", `"status":"failed"`}, []string{"response.completed"}, 0},
		{"Anthropic's", "/v1/messages", stream, Answer{Break: 4}, []string{"event: error", "overloaded_error"}, []string{"message_stop"}, 0},
		{"a negative usage", chat, whole, Answer{WrongUsage: "-5"}, []string{`"prompt_tokens":-5`}, nil, 0},
		{"a huge one", chat, stream, Answer{WrongUsage: "1e300"}, []string{`"completion_tokens":1e300`, "[DONE]"}, nil, 0},
		{"a string", "/v1/messages", whole, Answer{WrongUsage: `"many"`}, []string{`"output_tokens":"many"`}, nil, 0},
		{"a stall", chat, whole, Answer{Stall: time.Millisecond}, []string{`"usage":{`}, nil, 1},
		{"a stall in a stream", chat, stream, Answer{Stall: time.Millisecond, Pause: time.Microsecond}, []string{`[DONE]`}, nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, text, s := post(t, Options{}, test.answer, test.path, test.body)
			for _, part := range test.contains {
				if !strings.Contains(text, part) {
					t.Errorf("no %s in %s", part, text)
				}
			}
			for _, part := range test.lacks {
				if strings.Contains(text, part) {
					t.Errorf("%s in %s", part, text)
				}
			}
			if got := s.Stats("m"); got.Reports != test.reports || got.Used != usage || got.InFlight != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	if _, text, _ := post(t, Options{}, Answer{Garbage: true}, chat, whole); len(text) != 4096 {
		t.Errorf("%d bytes of garbage", len(text))
	}
}
