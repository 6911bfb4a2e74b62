package main

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// settle charges the tenant what the answer states, also of a stream that does not tell the tenant.
// That is not e.Settled, which is our charge at the provider: OpenAI's is max_tokens, whatever the
// answer uses. Of an answer that states nothing, httplimit keeps the estimate or gives it back.
func settle(e llmhttp.Event) {
	if e.Kind == llmhttp.EventSettled && e.Reported.Known {
		httplimit.Report(e.Context, "tokens", e.Reported.Prompt+e.Reported.Output)
	}
}

// conceal removes what an answer of the provider tells about our account. An answer that is about
// the account alone, its key or its quota, becomes an error.
func conceal(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests:
		return llmhttp.Classify(resp)
	}
	maps.DeleteFunc(resp.Header, func(name string, _ []string) bool {
		return strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Openai-") || name == "Set-Cookie"
	})
	return nil
}

// unavailable answers a call that the provider has not answered, without the reason: a 429 would
// blame the tenant for a quota that is ours.
func unavailable(w http.ResponseWriter, _ *http.Request, err error) {
	status, text := http.StatusBadGateway, "The provider does not answer."
	if problem, ours := llmhttp.FromError(err); ours {
		status, text = http.StatusServiceUnavailable, "This service has no room at the moment."
		wait := (problem.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.Itoa(max(int(wait), 1)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":%q,"type":"server_error","param":null,"code":null}}`+"\n", text)
}
