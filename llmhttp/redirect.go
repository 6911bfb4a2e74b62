package llmhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// RedirectError is the refusal to follow a redirect to another scheme, host or port: see
// Transport.AllowRedirects.
type RedirectError struct {
	From, To string // scheme, host and port, without path and query; From may be "unknown"
}

// Error names both origins.
func (e *RedirectError) Error() string {
	const format = "llmhttp: redirect from %s to %s refused: it would pass on the key and the prompt"
	return fmt.Sprintf(format, e.From, e.To)
}

// foreignRedirect returns an error for a request that follows a redirect to an origin other than
// that of the first request.
func foreignRedirect(req *http.Request) error {
	first := req
	// Clients follow a few redirects. A longer chain was built by hand for another purpose.
	for hops := 0; first.Response != nil && hops < 100; hops++ {
		if first.Response.Request == nil {
			return &RedirectError{From: "unknown", To: origin(req.URL)}
		}
		first = first.Response.Request
	}
	if first == req {
		return nil
	}
	if from, to := origin(first.URL), origin(req.URL); from != to {
		return &RedirectError{From: from, To: to}
	}
	return nil
}

// origin returns the scheme, host and port of a URL.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		switch scheme {
		case "http":
			port = "80"
		case "https":
			port = "443"
		}
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
