package apicall

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest delay that is believed.
const maxRetryAfter = 24 * time.Hour

// StatusError is a reply with a status other than 200.
type StatusError struct {
	Status  int
	Message string // of the provider, without secrets; never empty

	after time.Duration
}

// Error returns status and message.
func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// RetryAfter returns the delay that the header Retry-After asks for, at most a day; 0 for none.
func (e *StatusError) RetryAfter() time.Duration { return e.after }

// retryAfter reads Retry-After: seconds or a date
// (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) {
		seconds = min(max(seconds, 0), maxRetryAfter.Seconds())
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
