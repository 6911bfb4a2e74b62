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
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

const (
	maxCode  = 64  // bytes of a code
	maxQuota = 128 // bytes of the name of a quota

	// maxDetails bounds the details of an error, the violations in a detail, and the headers in a
	// body.
	maxDetails = 32

	// maxMessage bounds the bytes of a message that are examined.
	maxMessage = 1024
)

// The codes and types of errors that waiting does not resolve, and of an overloaded provider.
var (
	exhaustedCodes = []string{
		"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"organization_usage_limit_exceeded", "project_spend_limit_exceeded",
		"billing_hard_limit_reached", "billing_not_active", // OpenAI
		"enforced_spend_limit_reached", "billing_error", // Anthropic
	}
	overloadedCodes = []string{
		"server_is_overloaded", "resource_unavailable", // OpenAI
		"overloaded_error", // Anthropic
	}
)

// errorBody is the content of an error's body.
type errorBody struct {
	code       string
	codes      []string // all codes, types and statuses
	message    string   // in lower case
	quota      string
	limit      int
	limits     ratelimit.ProviderLimits
	perDay     bool // the name of the exceeded quota is that of a day
	failed     bool // the model failed
	awsType    string
	retryDelay time.Duration
	headers    http.Header // of the upstream answer that the provider passes on
}

// readErrorBody returns the content of a body, as far as it is JSON in a known form.
func readErrorBody(body []byte, status int) (b errorBody) {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return b
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0] // in Gemini's streams
	}
	top, _ := v.(map[string]any)
	inner, _ := top["error"].(map[string]any)
	b.message = text(inner["message"])
	for _, other := range []any{top["error"], top["message"]} {
		if b.message == "" {
			b.message = text(other)
		}
	}
	b.message = strings.ToLower(b.message[:min(len(b.message), maxMessage)])

	b.awsType = text(top["__type"])
	details, _ := inner["details"].(map[string]any)
	codes := []any{
		details["error_code"], inner["code"], inner["status"], inner["type"], top["code"], top["type"],
	}
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
		if s != strconv.Itoa(status) && isName(s, maxCode) {
			b.code = s
			break
		}
	}
	list, _ := inner["details"].([]any)
	for _, detail := range list[:min(len(list), maxDetails)] {
		if detail, ok := detail.(map[string]any); ok {
			b.googleDetail(detail)
		}
	}
	metadata, _ := inner["metadata"].(map[string]any)
	upstream, _ := metadata["headers"].(map[string]any)
	b.readHeaders(upstream)
	if b.retryDelay == 0 {
		b.retryDelay = statedDelay(b.message)
	}
	return b
}

// statedDelay returns the time that the message of an error states, in lower case: "please try
// again in 7.66s" of OpenAI and Groq, "please retry after 34 seconds" of Azure. It is 0 where there
// is none.
func statedDelay(message string) time.Duration {
	if _, rest, ok := strings.Cut(message, "try again in "); ok {
		stated, _, _ := strings.Cut(rest, " ")
		d, err := time.ParseDuration(strings.TrimRight(stated, ".,"))
		if err == nil && d > 0 {
			return min(d, headers.MaxReset)
		}
	}
	if _, rest, ok := strings.Cut(message, "retry after "); ok {
		if stated, unit, _ := strings.Cut(rest, " "); strings.HasPrefix(unit, "second") {
			d, _ := headers.ParseSeconds(stated)
			return d
		}
	}
	return 0
}

// googleDetail reads one of the details of Google's errors.
func (b *errorBody) googleDetail(detail map[string]any) {
	kind := text(detail["@type"])
	switch kind[strings.LastIndexByte(kind, '.')+1:] {
	case "QuotaFailure":
		list, _ := detail["violations"].([]any)
		for _, v := range list[:min(len(list), maxDetails)] {
			if v, ok := v.(map[string]any); ok {
				b.violation(text(v["quotaId"]), v["quotaValue"])
			}
		}
	case "ErrorInfo":
		metadata, _ := detail["metadata"].(map[string]any)
		b.violation(text(metadata["quota_limit"]), metadata["quota_limit_value"])
	case "RetryInfo":
		if s, ok := strings.CutSuffix(text(detail["retryDelay"]), "s"); ok {
			if d, ok := headers.ParseSeconds(s); ok {
				b.retryDelay = max(b.retryDelay, d)
			}
		}
	}
}

// violation reads an exceeded quota. The name of the quota contains its window and its unit.
func (b *errorBody) violation(id string, value any) {
	if !isName(id, maxQuota) {
		return
	}
	limit := 0
	if n, ok := value.(json.Number); ok {
		limit, _ = headers.ParseCount(n.String())
	} else {
		limit, _ = headers.ParseCount(text(value))
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
	headers.Tighten(to, ratelimit.ProviderLimit{Limit: limit})
}

// readHeaders reads headers inside the body, each with a string or a number.
func (b *errorBody) readHeaders(all map[string]any) {
	if len(all) == 0 || len(all) > maxDetails {
		return
	}
	b.headers = make(http.Header, len(all))
	for key, v := range all {
		if n, ok := v.(json.Number); ok {
			b.headers.Add(key, n.String())
		} else if s := text(v); s != "" {
			b.headers.Add(key, s)
		}
	}
}

// exhausted reports whether the body reports used-up money or a used-up plan.
func (b *errorBody) exhausted() bool {
	if b.hasCode(exhaustedCodes) {
		return true
	}
	if !slices.Contains(b.codes, "invalid_request_error") {
		return false
	}
	// A message may quote the call further on, so only its beginning is compared.
	return strings.HasPrefix(b.message, "your credit balance is too low") ||
		strings.HasPrefix(b.message, "you have reached your specified") &&
			strings.Contains(b.message, "usage limits")
}

// overloaded reports whether the body reports an overloaded provider.
func (b *errorBody) overloaded() bool {
	return b.hasCode(overloadedCodes) || b.hasCode(awsOverloaded) || strings.HasPrefix(b.message, "resource unavailable")
}

func (b *errorBody) hasCode(codes []string) bool {
	return slices.ContainsFunc(b.codes, func(c string) bool { return slices.Contains(codes, c) })
}

// namesDay reports whether the message names a limit of the day, as OpenAI, Groq and OpenRouter do.
func (b *errorBody) namesDay() bool {
	return strings.Contains(b.message, "requests per day") ||
		strings.Contains(b.message, "tokens per day") ||
		strings.Contains(b.message, "free-models-per-day")
}

// text returns v if it is a string, and nothing for other values.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// isName reports whether s is safe to show: at most limit letters, digits and signs of names.
func isName(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '.', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
