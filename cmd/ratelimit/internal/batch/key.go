package batch

import (
	"bytes"
	"net/http"
	"strings"
)

// scheme is where a provider wants its key.
type scheme struct {
	header   string // empty for Authorization, behind "Bearer "
	variable string // of the environment, where its SDKs look for the key
}

var (
	openAI    = scheme{"", "OPENAI_API_KEY"}
	azure     = scheme{"Api-Key", "AZURE_OPENAI_API_KEY"}
	anthropic = scheme{"X-Api-Key", "ANTHROPIC_API_KEY"}
	gemini    = scheme{"X-Goog-Api-Key", "GEMINI_API_KEY"}
)

// schemeOf returns where a key goes: by the host, or at hosts that are not known by the path.
func schemeOf(host, path string) scheme {
	switch {
	case host == "api.anthropic.com":
		return anthropic
	case host == "generativelanguage.googleapis.com":
		return gemini
	case strings.HasSuffix(host, ".openai.azure.com"):
		return azure
	case host == "api.openai.com":
		return openAI
	case strings.HasPrefix(path, messagesPath):
		return anthropic
	case strings.HasPrefix(path, "/v1beta/") || strings.HasPrefix(path, "/v1/models/"):
		return gemini
	case strings.HasPrefix(path, "/openai/deployments/"):
		return azure
	}
	return openAI
}

// anthropicVersion is the version of Anthropic's API, which it wants to be named.
const anthropicVersion = "2023-06-01"

// setHeaders sets the headers of a call.
func setHeaders(req *http.Request, host, path, key string) {
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ratelimit-batch")
	where := schemeOf(host, path)
	if where == anthropic {
		req.Header.Set("Anthropic-Version", anthropicVersion)
	}
	switch {
	case key == "":
	case where.header == "":
		req.Header.Set("Authorization", "Bearer "+key)
	default:
		req.Header.Set(where.header, key)
	}
}

// secret is a key that nothing may tell.
type secret string

// shortKey is the length below which a text may be in an answer by chance: keys are longer.
const shortKey = 8

var hidden = []byte("[key]")

// hide returns a text without the key, which a provider may have repeated.
func (s secret) hide(text []byte) []byte {
	if !s.in(text) {
		return text
	}
	return bytes.ReplaceAll(text, []byte(s), hidden)
}

// in reports whether a text has the key in it.
func (s secret) in(text []byte) bool {
	return len(s) >= shortKey && bytes.Contains(text, []byte(s))
}
