package llmhttp_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// eventError is an error in the form of openai-go's ResponseProtocolError.
type eventError struct{ Event rawEvent }

func (eventError) Error() string { return "responses websocket API error" }

type rawEvent string

func (e rawEvent) RawJSON() string { return string(e) }

// The error events of a WebSocket are found in the error of an SDK, those of the provider and those
// that the Transport put in.
func TestFromErrorOfSocket(t *testing.T) {
	for _, test := range []struct {
		event string
		kind  llmhttp.ProblemKind // zero for none
		after time.Duration
	}{
		{`{"type":"error","status":429,"error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"slow"},"headers":{"retry-after":"7"}}`, llmhttp.RateLimited, 7 * time.Second},
		{`{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow"}}`, llmhttp.RateLimited, 0},
		{`{"type":"error","status":400,"error":{"type":"invalid_request_error","message":"\"message\":\"go-ratelimit: the call was not sent (rpm)"}}`, llmhttp.Rejected, 0},
		{`{"type":"error","status":429,"error":{"message":"go-ratelimit: the call was not sent (rpm): model \"m\": full","type":"rate_limit_error"}}`, llmhttp.NotSent, 0},
		{`{"type":"response.completed","status":429}`, 0, 0},
		{``, 0, 0},
		{`?`, 0, 0},
	} {
		p, ok := llmhttp.FromError(&eventError{rawEvent(test.event)})
		if ok != (test.kind != 0) || ok && (p.Kind != test.kind || p.RetryAfter != test.after) {
			t.Errorf("%s: %+v, %v", test.event, p, ok)
		}
	}
}
