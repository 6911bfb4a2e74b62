package apicall

import (
	"encoding/json"
	"fmt"
)

// OpenAI counts only calls of its Responses API, so a chat completion is counted as the response
// that asks for the same. See https://developers.openai.com/api/docs/guides/migrate-to-responses,
// read 2026-11-22.

// chatMessage is a message of a chat completion.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a text, parts or null
	Refusal    string          `json:"refusal"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// chatPart is a part of a message's content.
type chatPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
	File map[string]json.RawMessage `json:"file"`
}

// unlikeResponses are the fields of a chat completion that add input in a way of their own.
var unlikeResponses = []string{"functions", "web_search_options"}

// chatCount returns the count of a chat completion as that of the same response. path is the one
// in front of /chat/completions.
func chatCount(path string, body fields) (count, error) {
	for _, name := range unlikeResponses {
		if body.has(name) {
			return count{}, fmt.Errorf("%w: %s", ErrUnsupported, name)
		}
	}
	converted := body.only("model", "parallel_tool_calls")
	for _, convert := range []func(to map[string]any, body fields) error{
		convertMessages, convertTools, convertFormat, convertEffort,
	} {
		if err := convert(converted, body); err != nil {
			return count{}, err
		}
	}
	return count{path: path + "/responses/input_tokens", body: converted, total: inputTokens}, nil
}

func convertMessages(to map[string]any, body fields) error {
	var messages []chatMessage
	if err := body.read("messages", &messages); err != nil {
		return err
	}
	items := make([]any, 0, len(messages))
	for _, m := range messages {
		content, err := m.content()
		if err != nil {
			return err
		}
		switch m.Role {
		case "tool":
			items = append(items, map[string]any{
				"type": "function_call_output", "call_id": m.ToolCallID, "output": content,
			})
			continue
		case "system", "developer", "user", "assistant":
		default:
			return fmt.Errorf("%w: a role of messages", ErrUnsupported)
		}
		if content != nil {
			items = append(items, map[string]any{"role": m.Role, "content": content})
		}
		for _, call := range m.ToolCalls {
			if call.Type != "" && call.Type != "function" {
				return fmt.Errorf("%w: a type of tool_calls", ErrUnsupported)
			}
			items = append(items, map[string]any{
				"type": "function_call", "call_id": call.ID,
				"name": call.Function.Name, "arguments": call.Function.Arguments,
			})
		}
	}
	to["input"] = items
	return nil
}

// content returns the content of a message as a text or as parts of a response's input; nil for
// none.
func (m *chatMessage) content() (any, error) {
	var text *string
	if m.Content == nil || json.Unmarshal(m.Content, &text) == nil {
		switch {
		case text != nil:
			return *text, nil
		case m.Refusal != "":
			return m.Refusal, nil
		}
		return nil, nil
	}
	var parts []chatPart
	if json.Unmarshal(m.Content, &parts) != nil {
		return nil, fmt.Errorf("%w: content of messages", ErrUnsupported)
	}
	converted := make([]any, 0, len(parts))
	for _, part := range parts {
		c, err := part.converted(m.Role)
		if err != nil {
			return nil, err
		}
		converted = append(converted, c)
	}
	return converted, nil
}

func (p *chatPart) converted(role string) (map[string]any, error) {
	switch p.Type {
	case "text":
		kind := "input_text"
		if role == "assistant" {
			kind = "output_text"
		}
		return map[string]any{"type": kind, "text": p.Text}, nil
	case "refusal":
		return map[string]any{"type": "refusal", "refusal": p.Refusal}, nil
	case "image_url":
		image := map[string]any{"type": "input_image", "image_url": p.ImageURL.URL}
		if p.ImageURL.Detail != "" {
			image["detail"] = p.ImageURL.Detail
		}
		return image, nil
	case "file":
		file := map[string]any{"type": "input_file"}
		for name, value := range p.File {
			file[name] = value
		}
		return file, nil
	}
	return nil, fmt.Errorf("%w: a type of content", ErrUnsupported) // such as input_audio
}

func convertTools(to map[string]any, body fields) error {
	if !body.has("tools") {
		return nil
	}
	var tools []struct {
		Type     string         `json:"type"`
		Function map[string]any `json:"function"`
	}
	if err := body.read("tools", &tools); err != nil {
		return err
	}
	converted := make([]any, 0, len(tools))
	for _, tool := range tools {
		if tool.Type != "function" || tool.Function == nil {
			return fmt.Errorf("%w: a type of tools", ErrUnsupported)
		}
		tool.Function["type"] = "function"
		converted = append(converted, tool.Function)
	}
	to["tools"] = converted
	return nil
}

// convertFormat converts response_format, whose schema is part of the input.
func convertFormat(to map[string]any, body fields) error {
	if !body.has("response_format") {
		return nil
	}
	var format struct {
		Type   string         `json:"type"`
		Schema map[string]any `json:"json_schema"`
	}
	if err := body.read("response_format", &format); err != nil {
		return err
	}
	converted := format.Schema
	if converted == nil {
		converted = make(map[string]any)
	}
	converted["type"] = format.Type
	to["text"] = map[string]any{"format": converted}
	return nil
}

func convertEffort(to map[string]any, body fields) error {
	if body.has("reasoning_effort") {
		to["reasoning"] = map[string]any{"effort": body["reasoning_effort"]}
	}
	return nil
}
