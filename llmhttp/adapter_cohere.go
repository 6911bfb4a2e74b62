package llmhttp

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/money"
)

// cohere is the adapter for version 2 of Cohere's API: chat, embed and rerank.
//
// See https://docs.cohere.com/reference/about.
type cohere struct{}

func (cohere) Name() string { return "cohere" }

func (cohere) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	for _, operation := range [...]string{"chat", "embed", "rerank"} {
		if rest, ok := strings.CutSuffix(req.URL.Path, operation); ok && strings.HasSuffix(rest, "/v2/") {
			call.Operation = operation
			return true
		}
	}
	return false
}

// Request reads the limit of the output in a chat alone: that of embed cuts the input.
func (cohere) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "model":
		call.setModel(v)
	case "stream":
		call.Stream = v.isTrue()
	case "max_tokens":
		if n, ok := tokenCount(v); ok && call.Operation == "chat" {
			call.MaxOutput = n
		}
	}
}

func (cohere) Estimate(call *Call, promptTokens, outputTokens int) (prompt, output int) {
	if call.Operation != "chat" {
		return promptTokens, 0
	}
	return promptTokens, outputTokens
}

func (cohere) Marks() []string { return []string{`"usage"`} }

// coherePaths are the paths of usage in a chat, in the last event of its stream, and elsewhere.
var coherePaths = [...][]byte{[]byte("usage."), []byte("delta.usage."), []byte("meta.")}

func (cohere) Response(_ *Call, usage *Usage, v Value) {
	if string(v.Path) == "type" {
		usage.final = v.text() == "message-end"
	}
	for _, path := range coherePaths {
		name, ok := bytes.CutPrefix(v.Path, path)
		if !ok {
			continue
		}
		switch string(name) {
		case "tokens.input_tokens":
			usage.Set(&usage.Prompt, v)
		case "tokens.output_tokens":
			usage.Set(&usage.Output, v)
		case "billed_units.input_tokens":
			usage.setBilled(&usage.Prompt, &usage.billedInput, v)
		case "billed_units.output_tokens":
			usage.setBilled(&usage.Output, &usage.billedOutput, v)
		}
	}
}

// setBilled stores a count of billed tokens, which are among those that were used: it is the count
// of these, too, where the answer has no other.
func (u *Usage) setBilled(used, billed *int, v Value) {
	before := *used
	u.Set(used, v)
	*billed = *used
	*used = max(*used, before)
	u.hasBilled = u.hasBilled || v.Kind == Number
}

// Count returns what was used, which has the provider's own text around the prompt in it.
func (cohere) Count(call *Call, usage *Usage) (prompt, output int) {
	if call.Operation != "chat" {
		return usage.Prompt, 0
	}
	return usage.Prompt, usage.Output
}

// Bill returns the billed tokens where the answer states them. A rerank is billed by searches.
func (c cohere) Bill(call *Call, usage *Usage) money.Usage {
	bill := money.Usage{Input: usage.Prompt, Output: usage.Output}
	if usage.hasBilled {
		bill.Input, bill.Output = usage.billedInput, usage.billedOutput
	}
	if call.Operation != "chat" {
		bill.Output = 0
	}
	return bill
}

func (cohere) Refusal(message string) []byte { return refusalBody(`{"message":`, message, `}`) }

func (cohere) paths() []knownPath {
	const reference = "https://docs.cohere.com/reference/"
	return slices.Concat(
		pathsOf("Cohere", reference+"chat", countedFate, "", "/v2/chat"),
		pathsOf("Cohere", reference+"embed", countedFate, "", "/v2/embed"),
		pathsOf("Cohere", reference+"rerank", countedFate, "it reports searches, so its tokens are the estimate", "/v2/rerank"),
	)
}
