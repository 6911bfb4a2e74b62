package fakeprovider

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// fail answers an error that is no refusal, with a status and the cause that the
// body names; empty is what is usual for the status.
func (x *exchange) fail(status int, cause string) {
	var body json.RawMessage
	switch x.call.Dialect {
	case Anthropic:
		body = anthropicFailure(status, cause)
	case Gemini:
		names := map[int]string{400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
		name := cmp.Or(names[status], "UNKNOWN")
		if cause == "model_not_found" || cause == "invalid_request_error" {
			cause = ""
		}
		body = geminiError(status, cmp.Or(cause, name), http.StatusText(status))
	case Ollama:
		body = object("error", cmp.Or(cause, http.StatusText(status)))
	default:
		body = x.openAIFailure(status, cause)
	}
	x.error(status, body)
}

func anthropicFailure(status int, cause string) json.RawMessage {
	kinds := map[int]string{400: "invalid_request_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error"}
	kind := cmp.Or(kinds[status], "api_error")
	switch cause {
	case "", "model_not_found", kind:
		cause = ""
	}
	message := http.StatusText(status)
	if status == 529 {
		message = "Overloaded"
	}
	return anthropicError(kind, message, cause)
}

func (x *exchange) openAIFailure(status int, cause string) json.RawMessage {
	if x.headers == AzureHeaders {
		return object("error", object("code", cmp.Or(cause, http.StatusText(status)), "message", http.StatusText(status)))
	}
	switch {
	case cause == "insufficient_quota":
		return openAIError(cause, cause, "You exceeded your current quota, please check your plan and billing details.")
	case cause != "":
		return openAIError(cause, cause, http.StatusText(status))
	case status == http.StatusTooManyRequests:
		return openAIError("requests", "rate_limit_exceeded", "Rate limit reached.")
	case status == http.StatusServiceUnavailable:
		return openAIError("server_error", "server_is_overloaded", "The server is overloaded or not ready yet.")
	}
	return openAIError("server_error", "", "The server had an error while processing your request. Sorry about that!")
}
