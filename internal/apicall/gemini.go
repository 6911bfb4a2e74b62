package apicall

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Gemini is the countTokens method of the Gemini API (https://ai.google.dev/api/tokens, read
// 2026-11-22).
var Gemini = &CountAPI{
	base: "https://generativelanguage.googleapis.com",
	path: func(model string) string {
		return "/v1beta/models/" + url.PathEscape(model) + ":countTokens"
	},
	header: func(h http.Header, key string) {
		if key != "" {
			h.Set("x-goog-api-key", key)
		}
	},
	body: func(_, text string) any {
		parts := []any{map[string]any{"text": text}}
		return map[string]any{"contents": []any{map[string]any{"parts": parts}}}
	},
	total: geminiTotal,
}

const geminiTotal = "totalTokens"

// generateContentMethods are the methods whose body countTokens takes.
var generateContentMethods = []string{":generateContent", ":streamGenerateContent"}

// vertexFields are what Vertex AI's countTokens takes of a body, in both spellings of JSON
// (https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.endpoints/countTokens,
// read 2026-11-22).
var vertexFields = []string{
	"contents", "systemInstruction", "system_instruction", "tools", "generationConfig", "generation_config",
}

// geminiCount returns the count of a generateContent call whose path, without the method, is given.
func geminiCount(path string, body fields) (count, error) {
	c := count{path: path + ":countTokens", total: geminiTotal}
	if strings.Contains(path, "/publishers/") {
		c.body = body.only(vertexFields...)
		return c, nil
	}
	start := strings.LastIndexByte(path[:strings.LastIndexByte(path, '/')], '/') + 1 // models/NAME
	model, err := url.PathUnescape(path[start:])
	if err != nil {
		return count{}, err
	}
	if body["model"], err = json.Marshal(model); err != nil {
		return count{}, err
	}
	c.body = map[string]any{"generateContentRequest": body}
	return c, nil
}
