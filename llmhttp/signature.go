package llmhttp

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// ErrSignatureAge is what a *ratelimit.LimitError unwraps to when a request that AWS's Signature
// Version 4 signs was refused because its signature would be too old when there is room. A
// signature lasts five minutes, and SDKs sign before they send, so a call waits for at most four
// minutes from the moment at which it comes to the Transport, its retries by Transport.Retry
// included. An SDK that calls again signs again. [FromError] finds it in the Err of a Problem.
var ErrSignatureAge = errors.New("the signature of the request would be too old")

// maxSignedWait is how long a signed request may wait. A signature lasts five minutes
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html, read
// 2026-11-25); the rest is for the way to the provider and for clocks that differ.
const maxSignedWait = 4 * time.Minute

// signed reports whether a request has a signature that ends with time.
func signed(req *http.Request) bool {
	return strings.HasPrefix(req.Header.Get("Authorization"), "AWS4-")
}

// signs reports whether the signature of a request covers a header, given in lower case.
func signs(req *http.Request, header string) bool {
	if !signed(req) {
		return false
	}
	_, rest, _ := strings.Cut(req.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ := strings.Cut(rest, ",")
	for name := range strings.SplitSeq(list, ";") {
		if strings.TrimSpace(name) == header {
			return true
		}
	}
	return false
}

// signatureEnd returns until when a request that comes now may wait; zero for any time.
func signatureEnd(req *http.Request) time.Time {
	if !signed(req) {
		return time.Time{}
	}
	return time.Now().Add(maxSignedWait)
}

// bound returns when the wait of a call ends before the deadline of its context, and the error that
// says why; the zero time for no such bound.
func (f *flight) bound() (until time.Time, cause error) {
	if longest := f.maxWait(); longest > 0 {
		until, cause = time.Now().Add(longest), ratelimit.ErrMaxWait
	}
	if !f.signedUntil.IsZero() && (until.IsZero() || f.signedUntil.Before(until)) {
		until, cause = f.signedUntil, ErrSignatureAge
	}
	return until, cause
}

// outlivesSignature reports whether a request that waits so long would have too old a signature.
func (f *flight) outlivesSignature(wait time.Duration) bool {
	return !f.signedUntil.IsZero() && time.Now().Add(wait).After(f.signedUntil)
}
