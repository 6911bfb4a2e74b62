package llmhttp

import (
	"io"

	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// countPrompt has the provider count the prompt of a call that is estimated above CountAbove, once.
// It reports whether call.counted has the result.
func (t *Transport) countPrompt(f *flight) (ok bool) {
	call := f.call
	if call.counted == 0 && t.CountAbove > 0 && textTokens(call.PromptBytes)+call.mediaTokens > t.CountAbove {
		call.counted = -1
		if n := t.askForCount(f); n > 0 {
			call.counted = n
		}
	}
	return call.counted > 0
}

// askForCount returns what the provider counts; 0 if that fails or is not possible.
func (t *Transport) askForCount(f *flight) (promptTokens int) {
	call := f.call
	if call.body == nil || call.invalid {
		return 0
	}
	copyOf := call.body
	call.body = nil // which may hold all of it
	reader, err := copyOf()
	if err != nil {
		return 0
	}
	defer reader.Close()
	body, err := io.ReadAll(io.LimitReader(reader, t.maxBody()+1))
	if err != nil || int64(len(body)) > t.maxBody() {
		return 0
	}
	original := call.Request
	if f.routed != nil {
		original = original.WithContext(original.Context())
		f.routed.way.address(original, f.routed.backend)
	}
	n, err := apicall.CountRequest(original.Context(), t.roundTripper(), original, body)
	if err != nil {
		return 0
	}
	return clampTokens(int64(n))
}
