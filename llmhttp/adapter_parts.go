package llmhttp

import (
	"net/http"

	"dappco.re/go/core/go-ratelimit/money"
)

// The parts of the built-in adapters for which the exported Adapter has no methods. Each is
// optional.
type (
	// headerReader reads the usage in the headers of an answer. Its body counts in their place.
	headerReader interface {
		Headers(call *Call, usage *Usage, h http.Header)
	}
	// weigher says how many tokens a token of the output counts towards the limits, at least one.
	weigher interface {
		weight(call *Call) int
	}
	// prompter returns all tokens of the prompt that a usage reports, those from a cache included.
	prompter interface {
		wholePrompt(call *Call, usage *Usage) int
	}
	// inputOnly marks an adapter of a provider that limits input alone, and bills the output.
	inputOnly interface {
		billsOutput(call *Call) bool
	}
)

// readCounts reads the usage in the headers of an answer.
func (f *flight) readCounts(h http.Header) {
	if a, ok := f.adapter.(headerReader); ok {
		a.Headers(f.call, &f.usage, h)
	}
}

// estimatedOutput returns the charge of the output at admission, as the model writes it.
func (f *flight) estimatedOutput() int {
	weight := 1
	if a, ok := f.adapter.(weigher); ok {
		weight = a.weight(f.call)
	}
	return (f.charged.OutputTokens + weight - 1) / weight
}

// estimatedBill returns what the call costs by its estimate.
func (f *flight) estimatedBill() money.Usage {
	return money.Usage{Input: f.charged.PromptTokens, Output: max(f.estimatedOutput(), f.billedOutput), ServiceTier: f.call.tier}
}

// writtenTokens estimates the tokens of the text in the answer so far. What an image or a sound is
// made of is no text.
func (f *flight) writtenTokens() int {
	if f.call.byRequest {
		return 0
	}
	return textTokens(f.stream.textBytes())
}
