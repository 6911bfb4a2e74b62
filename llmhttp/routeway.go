package llmhttp

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// way is how a request is routed. A nil way is that of a request that is not.
type way struct {
	route *Route
	only  *backend // the one that it must go to; nil for any
	// addressed reports that the request has the URL of that backend, which redirected to it.
	addressed bool
}

// wayOf returns how a request is routed; nil for one that is sent without a backend.
func (r *Route) wayOf(req *http.Request) (*way, error) {
	if req.URL == nil {
		return nil, nil
	}
	if from := r.redirector(req); from != nil {
		switch to := origin(req.URL); {
		case to == origin(from.url):
			return &way{route: r, only: from.backend, addressed: true}, nil
		case !r.AllowRedirects:
			return nil, &RedirectError{From: origin(from.url), To: to}
		}
		return nil, nil
	}
	if req.Response != nil || req.URL.Opaque != "" || r.from != nil && !r.from.contains(req.URL) {
		return nil, nil
	}
	only, err := r.chosen(req.Context())
	if err != nil {
		return nil, err
	}
	return &way{route: r, only: only}, nil
}

// contains reports whether a URL is below a base URL.
func (b *baseURL) contains(u *url.URL) bool {
	_, ok := b.cut(u)
	return ok && origin(u) == b.origin
}

// cut returns the escaped path of a URL behind that of a base URL.
func (b *baseURL) cut(u *url.URL) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(u.EscapedPath(), b.path)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// first returns the backend for requests that are not limited.
func (w *way) first() *backend {
	if w.only != nil {
		return w.only
	}
	return w.route.backends[0]
}

// address makes a request, which is a shallow copy of the caller's, one to a backend.
func (w *way) address(req *http.Request, to *backend) {
	if to.url != nil && !w.addressed {
		u := *req.URL
		rest, _ := w.route.from.cut(&u)
		u.Scheme, u.Host, u.User = to.url.Scheme, to.url.Host, nil
		u.RawPath = to.url.path + rest
		if path, err := url.PathUnescape(u.RawPath); err == nil {
			u.Path = path
		}
		req.URL, req.Host = &u, ""
	}
	if len(to.header) == 0 {
		return
	}
	if req.Header = req.Header.Clone(); req.Header == nil {
		req.Header = make(http.Header, len(to.header))
	}
	for name, values := range to.header {
		if len(values) == 0 {
			delete(req.Header, name)
		} else {
			req.Header[name] = slices.Clone(values) // Base may change them
		}
	}
}

// pass sends a request that is not limited.
func (w *way) pass(req *http.Request) (*http.Response, error) {
	to, sent := w.first(), req.WithContext(req.Context())
	w.address(sent, to)
	resp, err := w.route.roundTripper().RoundTrip(sent)
	if resp != nil {
		resp.Request = req
		w.redirected(resp, sent.URL, to)
	}
	return resp, err
}

// redirectKey is the key of the redirect in the context of the request of a response.
type redirectKey struct{}

// redirect is the origin of a redirect.
type redirect struct {
	route   *Route
	backend *backend
	url     *url.URL // that was sent
}

// redirected marks the answer of a backend to what was sent to a URL, if it is a redirect. Clients
// resolve its location against the URL of the caller, which is another.
func (w *way) redirected(resp *http.Response, sent *url.URL, by *backend) {
	to := resp.Header.Get("Location")
	if resp.StatusCode < 300 || resp.StatusCode > 399 || to == "" {
		return
	}
	if u, err := sent.Parse(to); err == nil && sent != resp.Request.URL {
		resp.Header.Set("Location", u.String())
	}
	mark := &redirect{w.route, by, sent}
	resp.Request = resp.Request.WithContext(
		context.WithValue(resp.Request.Context(), redirectKey{}, mark))
}

// redirector returns the redirect that a request follows; nil if no backend of this route made it.
func (r *Route) redirector(req *http.Request) *redirect {
	if req.Response == nil || req.Response.Request == nil {
		return nil
	}
	from, _ := req.Response.Request.Context().Value(redirectKey{}).(*redirect)
	if from == nil || from.route != r {
		return nil
	}
	return from
}
