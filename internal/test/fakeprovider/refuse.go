package fakeprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refuse answers a request that came over a limit.
func (x *exchange) refuse(why *refusal) {
	x.header()
	h := x.w.Header()
	status := http.StatusTooManyRequests
	var body json.RawMessage
	switch x.call.Dialect {
	case Anthropic:
		if !why.never {
			h.Set("retry-after", wholeSeconds(why.wait))
		}
		body = anthropicError("rate_limit_error", "This request would exceed your organization's rate limit of "+
			strconv.Itoa(why.limit)+" "+anthropicUnits[why.dimension]+".", "")
	case Gemini:
		body = x.geminiRefusal(why)
	case Ollama:
		status = http.StatusServiceUnavailable
		body = object("error", "server busy, please try again.  maximum pending requests exceeded")
	default:
		body = x.openAIRefusal(why)
		if !why.never {
			h.Set("retry-after", wholeSeconds(why.wait))
			if x.headers != GroqHeaders {
				h.Set("retry-after-ms", strconv.FormatInt(int64((why.wait+time.Millisecond-1)/time.Millisecond), 10))
			}
		}
	}
	x.error(status, body)
}

// error writes an error.
func (x *exchange) error(status int, body json.RawMessage) {
	if x.call.Dialect == Gemini && x.call.Stream && !x.call.sse {
		body = encode(list(body))
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	x.w.Write(body)
}

var anthropicUnits = [Dimensions]string{"requests per minute", "tokens per minute", "input tokens per minute", "output tokens per minute",
	"requests per day", "concurrent connections"}

var openAIUnits = [Dimensions][2]string{RPM: {"requests", "requests per min (RPM)"}, TPM: {"tokens", "tokens per min (TPM)"},
	ITPM: {"tokens", "input tokens per min (ITPM)"}, OTPM: {"tokens", "output tokens per min (OTPM)"},
	RPD: {"requests", "requests per day (RPD)"}, InFlight: {"requests", "concurrent requests"}}

func (x *exchange) openAIRefusal(why *refusal) json.RawMessage {
	unit := openAIUnits[why.dimension]
	if x.headers == AzureHeaders {
		return object("error", object("code", "429", "message", fmt.Sprintf("Requests to the %s Operation under Azure OpenAI API "+
			"have exceeded %s rate limit of your current pricing tier. Please retry after %s seconds.",
			x.call.Operation, unit[0][:len(unit[0])-1], wholeSeconds(why.wait))))
	}
	name := x.call.Model
	if x.headers == GroqHeaders {
		name = "`" + name + "`"
	}
	message := fmt.Sprintf("Rate limit reached for model %s in organization org-fake on %s: Limit %d, Used %d, Requested %d. Please try again in %s.",
		name, unit[1], why.limit, why.used, why.requested, goDuration(why.wait))
	if why.never {
		message = fmt.Sprintf("Request too large for model %s in organization org-fake on %s: Limit %d, Requested %d.",
			name, unit[1], why.limit, why.requested)
	}
	return openAIError(unit[0], "rate_limit_exceeded", message)
}

func openAIError(kind, code, message string) json.RawMessage {
	var c any
	if code != "" {
		c = code
	}
	return object("error", object("message", message, "type", kind, "param", nil, "code", c))
}

// anthropicError returns an error; code is the error_code of its details, or empty.
func anthropicError(kind, message, code string) json.RawMessage {
	var details any
	if code != "" {
		details = object("error_code", code)
	}
	return object("type", "error", "error", object("details", details, "type", kind, "message", message), "request_id", "req_fake")
}

var geminiQuota = [Dimensions][2]string{
	RPM:  {"generate_requests_per_model", "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"},
	TPM:  {"generate_content_input_token_count", "GenerateContentInputTokensPerModelPerMinute-FreeTier"},
	ITPM: {"generate_content_input_token_count", "GenerateContentInputTokensPerModelPerMinute-FreeTier"},
	OTPM: {"generate_content_output_token_count", "GenerateContentOutputTokensPerModelPerMinute-FreeTier"},
	RPD:  {"generate_requests_per_model_per_day", "GenerateRequestsPerDayPerProjectPerModel-FreeTier"},
}

func (x *exchange) geminiRefusal(why *refusal) json.RawMessage {
	if x.call.vertex || why.dimension == InFlight {
		return geminiError(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.")
	}
	quota := geminiQuota[why.dimension]
	return geminiError(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.",
		object("@type", "type.googleapis.com/google.rpc.QuotaFailure", "violations", list(object(
			"quotaMetric", "generativelanguage.googleapis.com/"+quota[0], "quotaId", quota[1],
			"quotaDimensions", object("location", "global", "model", x.call.Model), "quotaValue", strconv.Itoa(why.limit)))),
		object("@type", "type.googleapis.com/google.rpc.Help", "links", list(object(
			"description", "Learn more about Gemini API quotas", "url", "https://ai.google.dev/gemini-api/docs/rate-limits"))),
		object("@type", "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay", strconv.FormatFloat(why.wait.Seconds(), 'f', -1, 64)+"s"))
}

func geminiError(code int, status, message string, details ...json.RawMessage) json.RawMessage {
	pairs := []any{"code", code, "message", message, "status", status}
	if details != nil {
		pairs = append(pairs, "details", details)
	}
	return object("error", object(pairs...))
}
