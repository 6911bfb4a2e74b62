package llmhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// RedirectError says that an answer pointed to another scheme, host or port, and was not
// followed: see Transport.AllowRedirects.
type RedirectError struct {
	From, To string // scheme, host and port, without path and query; From may be "unknown"
}

// Error names the two.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("llmhttp: redirect from %s to %s refused: the key and the prompt would go along", e.From, e.To)
}

// foreignRedirect returns an error for a request that follows an answer to another origin
// than that of the first request.
func foreignRedirect(req *http.Request) error {
	first := req
	// A client follows a few; whoever chains more by hand means something else.
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
