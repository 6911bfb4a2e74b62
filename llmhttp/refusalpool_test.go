package llmhttp

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// A refusal names the pool that denied: in the response, to Classify and FromError, also where only
// the text is left.
func TestRefusalNamesThePool(t *testing.T) {
	for _, pool := range []string{"org", `a "b", pool "c"`, "zoë", ""} {
		limit := &ratelimit.LimitError{Model: `m "x"`, Err: ratelimit.ErrMaxWait, Decision: ratelimit.Decision{
			Code: ratelimit.DecisionRPMLimit, Reason: "60 of 60", RetryAfter: 1500 * time.Millisecond, Pool: pool,
		}}
		message := refusalMessage(limit)
		resp := refusal(&http.Request{}, limit, openAI{}.Refusal(message))
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		inText, _ := FromError(errors.New(message))
		inBody, _ := FromError(errors.New(string(body)))
		inError, _ := FromError(limit)
		for name, p := range map[string]*Problem{"Classify": Classify(resp), "a text": inText, "a body": inBody, "an error": inError} {
			if p == nil || p.Pool != pool || p.Model != `m "x"` || p.Code != "rpm_exceeded" || p.RetryAfter != 1500*time.Millisecond || p.Err != ratelimit.ErrMaxWait {
				t.Errorf("%q, %s: %+v of %s", pool, name, p, message)
			}
		}
	}
}
