package httplimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// rateLimitCode is the code by which SDKs know a refusal for its rate.
const rateLimitCode = "rate_limit_exceeded"

// refuse answers a request that is refused, with an error as OpenAI's API has it.
func refuse(w http.ResponseWriter, _ *http.Request, d Decision) {
	h := w.Header()
	content := struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}{Message: message(&d), Type: "rate_limit_error"}
	switch d.Reason {
	case NoKey:
		content.Type = "invalid_request_error"
		h.Set("WWW-Authenticate", "Bearer")
	case Failed:
		content.Type = "server_error"
	default:
		code := rateLimitCode
		content.Code = &code
	}
	if d.Never() {
		h.Set("X-Should-Retry", "false") // OpenAI's SDKs try again otherwise
	}
	body, err := json.Marshal(map[string]any{"error": content})
	if err != nil {
		body = nil // strings can be marshaled always
	}
	body = append(body, '\n')
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.Status)
	w.Write(body) // an error means that the client has left
}

// message says in words why a request is refused, without its key.
func message(d *Decision) string {
	switch d.Reason {
	case NoKey:
		return "The request has no valid API key."
	case Failed:
		return "The rate limits of this service cannot be checked at the moment."
	case OverInFlight:
		return fmt.Sprintf("Too many requests at the same time: %d are being served, which is the limit. "+
			"Try again when one of them has ended.", d.InFlight)
	}
	i := strictest(d.Decisions)
	l, decision := d.Limits[i], d.Decisions[i]
	if decision.Never {
		return fmt.Sprintf("The request is too large for the rate limit of %s: it needs %d, and the limit is %d per %v.",
			l.Namespace, l.Cost, l.Limit, window(l.Window))
	}
	text := fmt.Sprintf("Rate limit of %s reached: the limit is %d per %v, %d left", l.Namespace, l.Limit, window(l.Window),
		max(decision.Remaining, 0))
	if l.Cost != 1 {
		text += fmt.Sprintf(", and the request needs %d", l.Cost)
	}
	if decision.RetryAfter == 0 { // only what other requests hold is in the way
		return text + ". Try again when one of your requests has ended."
	}
	return fmt.Sprintf("%s. Try again in %d s.", text, seconds(d.RetryAfter))
}

// windowNames are windows as people write them.
var windowNames = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}

// window returns a window as people write it: "minute" for 1m0s.
func window(d time.Duration) string {
	if name, ok := windowNames[d]; ok {
		return name
	}
	return d.String()
}
