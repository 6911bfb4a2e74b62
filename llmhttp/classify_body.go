package llmhttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	mostCode  = 64  // how long a code may be
	mostQuota = 128 // how long the name of a quota may be

	// mostDetails is how many details of an error, violations in one and headers are read.
	mostDetails = 32

	// mostMessage is how much of a message is looked at.
	mostMessage = 1024
)

// The codes and types of errors that no wait helps against, and of a provider that has too
// much to do.
var (
	exhaustedCodes = []string{
		"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "billing_hard_limit_reached", "billing_not_active", // OpenAI
		"enforced_spend_limit_reached", "billing_error", // Anthropic
	}
	overloadedCodes = []string{
		"server_is_overloaded", "resource_unavailable", // OpenAI
		"overloaded_error", // Anthropic
	}
)

// errorBody is what the body of an error says.
type errorBody struct {
	code       string
	codes      []string // all of code, type and status that there are
	message    string   // in lower case
	quota      string
	limit      int
	limits     ratelimit.ProviderLimits
	perDay     bool // a quota of the day was exceeded, by its name
	retryDelay time.Duration
	headers    http.Header // those of an error that the provider itself was answered
}

// readErrorBody returns what a body says, as far as it is JSON and known.
func readErrorBody(body []byte, status int) (b errorBody) {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return b
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0] // of Gemini's streams
	}
	top, _ := v.(map[string]any)
	inner, _ := top["error"].(map[string]any)
	b.message = text(inner["message"])
	for _, other := range []any{top["error"], top["message"]} {
		if b.message == "" {
			b.message = text(other)
		}
	}
	b.message = strings.ToLower(b.message[:min(len(b.message), mostMessage)])

	details, _ := inner["details"].(map[string]any)
	codes := []any{details["error_code"], inner["code"], inner["status"], inner["type"], top["code"], top["type"]}
	number := ""
	for _, c := range codes {
		if n, ok := c.(json.Number); ok && number == "" {
			number = n.String()
		}
		if s := text(c); s != "" && s != "error" {
			b.codes = append(b.codes, s)
		}
	}
	for _, s := range append(b.codes, number) {
		if s != strconv.Itoa(status) && isName(s, mostCode) {
			b.code = s
			break
		}
	}
	list, _ := inner["details"].([]any)
	for _, detail := range list[:min(len(list), mostDetails)] {
		if detail, ok := detail.(map[string]any); ok {
			b.googleDetail(detail)
		}
	}
	metadata, _ := inner["metadata"].(map[string]any)
	headers, _ := metadata["headers"].(map[string]any)
	b.takeHeaders(headers)
	return b
}

// googleDetail takes over one of the details that Google's errors have.
func (b *errorBody) googleDetail(detail map[string]any) {
	kind := text(detail["@type"])
	switch kind[strings.LastIndexByte(kind, '.')+1:] {
	case "QuotaFailure":
		list, _ := detail["violations"].([]any)
		for _, v := range list[:min(len(list), mostDetails)] {
			if v, ok := v.(map[string]any); ok {
				b.violation(text(v["quotaId"]), v["quotaValue"])
			}
		}
	case "ErrorInfo":
		metadata, _ := detail["metadata"].(map[string]any)
		b.violation(text(metadata["quota_limit"]), metadata["quota_limit_value"])
	case "RetryInfo":
		if s, ok := strings.CutSuffix(text(detail["retryDelay"]), "s"); ok {
			if d, ok := decimal(s, time.Second); ok && d <= mostReset {
				b.retryDelay = max(b.retryDelay, d)
			}
		}
	}
}

// violation takes over a quota that was exceeded. The name of the quota has its window in
// it, and what is counted.
func (b *errorBody) violation(id string, value any) {
	if !isName(id, mostQuota) {
		return
	}
	limit := 0
	if n, ok := value.(json.Number); ok {
		limit, _ = parseCount(n.String())
	} else {
		limit, _ = parseCount(text(value))
	}
	name := strings.ToLower(id)
	perDay := strings.Contains(name, "perday")
	if b.quota == "" || perDay && !b.perDay {
		b.quota, b.limit = id, limit
	}
	b.perDay = b.perDay || perDay

	perMinute := strings.Contains(name, "perminute")
	tokens := strings.Contains(name, "token")
	var to *ratelimit.ProviderLimit
	switch {
	case strings.Contains(name, "outputtoken"), !tokens && !strings.Contains(name, "request"):
		return
	case tokens && perDay:
		to = &b.limits.TPD
	case tokens && perMinute:
		to = &b.limits.TPM
	case perDay:
		to = &b.limits.RPD
	case perMinute:
		to = &b.limits.RPM
	default:
		return
	}
	tighten(to, ratelimit.ProviderLimit{Limit: limit})
}

// takeHeaders takes over headers that are in the body, each with a string or a number.
func (b *errorBody) takeHeaders(headers map[string]any) {
	if len(headers) == 0 || len(headers) > mostDetails {
		return
	}
	b.headers = make(http.Header, len(headers))
	for key, v := range headers {
		if n, ok := v.(json.Number); ok {
			b.headers.Add(key, n.String())
		} else if s := text(v); s != "" {
			b.headers.Add(key, s)
		}
	}
}

// exhausted reports whether the body says that money or a plan is used up.
func (b *errorBody) exhausted() bool {
	if b.hasCode(exhaustedCodes) {
		return true
	}
	// A message may quote the call further on, so only its beginning is looked at.
	return slices.Contains(b.codes, "invalid_request_error") &&
		(strings.HasPrefix(b.message, "your credit balance is too low") ||
			strings.HasPrefix(b.message, "you have reached your specified") && strings.Contains(b.message, "usage limits"))
}

// overloaded reports whether the body says that the provider has too much to do.
func (b *errorBody) overloaded() bool {
	return b.hasCode(overloadedCodes) || strings.HasPrefix(b.message, "resource unavailable")
}

func (b *errorBody) hasCode(codes []string) bool {
	return slices.ContainsFunc(b.codes, func(c string) bool { return slices.Contains(codes, c) })
}

// saysPerDay reports whether the message names a limit of the day, as OpenAI, Groq and
// OpenRouter do.
func (b *errorBody) saysPerDay() bool {
	return strings.Contains(b.message, "requests per day") ||
		strings.Contains(b.message, "tokens per day") ||
		strings.Contains(b.message, "free-models-per-day")
}

// text returns a string, and nothing for any other value.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// isName reports whether s can be shown: at most so many letters, digits and signs of names.
func isName(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c), c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '.', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
