package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Backend is a key, a deployment or a base URL of an API: one of several that serve the same
// models. It prints and marshals without its header, which holds a key.
type Backend struct {
	// Name names the backend in quotas, events and errors: its models are counted as Name, a slash
	// and the model, such as "eu/gpt-4o", unless Route.CountAs says otherwise. It is required, at
	// most 64 bytes without control characters, and no two backends have the same.
	Name string

	// BaseURL takes the place of Route.BaseURL in the URL of a request, such as
	// "https://eu.example.com/v1". It has a scheme and a host, and neither a user, a query nor a
	// fragment. Empty keeps the URL of the request.
	BaseURL string

	// Header replaces these headers of a request: Authorization, X-Api-Key, Api-Key and the like.
	// One without values is removed. Host, Content-Length and Transfer-Encoding cannot be set.
	// The headers are sent to this backend alone, also where it redirects to itself.
	Header http.Header `json:"-" yaml:"-"`
}

// String returns the name and the base URL.
func (b Backend) String() string { return fmt.Sprintf("{%s %s}", b.Name, b.BaseURL) }

// GoString returns the name and the base URL in Go's syntax.
func (b Backend) GoString() string {
	return fmt.Sprintf("llmhttp.Backend{Name:%q, BaseURL:%q}", b.Name, b.BaseURL)
}

// Route is a [Transport] that sends each call to one of several keys, deployments or base URLs of
// the same API: to the one whose quota for the model has the most room. Bodies are never changed.
//
// Most room is the largest share that the call would leave of the scarcest limit; equal backends
// take turns. Where none has room, the call waits, as it does in a Transport, for the one that has
// room first; with [WithCharge] for the one that is expected to. A call is charged to the backend
// that it is sent to, and to no other. Quotas, prices and members of pools are by the name under
// which a backend's models are counted: see Backend.Name.
//
// A refusal for the quota, the credit or the overload of a backend (429, 402, 503, 529) counts for
// that one, as in a Transport. The call is then sent to another backend, once to each at most. It
// waits for room there, but no longer than the first one asks it to. The caller gets the last
// refusal where there is no other backend with room in that time, where the body cannot be sent
// again (it has no GetBody and is larger than MaxBody), or where a backend was chosen by
// [WithBackend]. That is decided before the caller has anything of the answer. Other failures are
// left to Retry, which takes a backend that has not failed the call. A backend that failed, or is
// out of credit, gets no calls for a second, then two, up to a minute, until it answers. Where all
// backends did, all are tried.
//
// Requests that are no calls to a model go to the first backend, and so does a WebSocket, whose
// calls then count there. What is stored at a provider, such as files, batches and earlier
// responses, is known to the backend that stored it: see WithBackend.
//
// Only Transport.Limiter and Backends must be set; an invalid field fails every call with an error
// that names it. A Route is safe for concurrent use. Its fields must not be changed after the first
// use, and it must not be copied.
type Route struct {
	// Transport says how calls are counted and sent. Its Model names the model alone, and an
	// Estimate is asked once for all backends.
	Transport

	// Backends are the keys, deployments or base URLs, at least one.
	Backends []Backend

	// BaseURL is the base URL for which the requests are made, that of the SDK, such as
	// "https://api.openai.com/v1". Requests elsewhere are sent as by the Transport alone, without a
	// header of a backend. It is required where a backend has a BaseURL. Empty means any URL: the
	// headers of the backends, which hold keys, then go wherever the program sends a request.
	BaseURL string

	// CountAs returns the name under which a model is counted at a backend. Backends for which it
	// is the same share a quota. Nil means backend + "/" + model. It must be fast, and always
	// return the same name, which is not empty, for the same arguments.
	CountAs func(backend, model string) string

	check    sync.Once
	invalid  error // of the fields
	from     *baseURL
	backends []*backend
	turn     atomic.Uint32 // which of equal backends comes first
}

// backend is a Backend whose fields were checked.
type backend struct {
	name   string
	url    *baseURL    // nil keeps the URL of a request
	header http.Header // with canonical keys
}

// maxBackendName bounds the name of a backend in bytes.
const maxBackendName = 64

// RoundTrip is [Transport.RoundTrip] at the backend with the most room. Its errors are the same,
// and one for an invalid field, or for a backend that WithBackend names and that does not exist. A
// *ratelimit.LimitError names the model as counted, with its backend. Response.Request is the
// caller's request, without the header of a backend.
func (r *Route) RoundTrip(req *http.Request) (*http.Response, error) {
	r.check.Do(func() { r.invalid = r.validate() })
	if r.invalid != nil {
		closeBody(req)
		return nil, r.invalid
	}
	way, err := r.wayOf(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	return r.roundTrip(req, way)
}

// validate checks the fields and keeps what the requests need of them.
func (r *Route) validate() (err error) {
	if len(r.Backends) == 0 {
		return errors.New("llmhttp: Route.Backends is empty")
	}
	if r.BaseURL != "" {
		if r.from, err = parseBaseURL(r.BaseURL); err != nil {
			return fmt.Errorf("llmhttp: Route.BaseURL: %w", err)
		}
	}
	for i := range r.Backends {
		b, err := r.validated(&r.Backends[i])
		if err != nil {
			return fmt.Errorf("llmhttp: Route.Backends[%d]: %w", i, err)
		}
		r.backends = append(r.backends, b)
	}
	return nil
}

// validated returns a backend in its checked form. Its errors begin with the field, and contain no
// header's value.
func (r *Route) validated(b *Backend) (*backend, error) {
	known := func(other *backend) bool { return other.name == b.Name }
	switch {
	case b.Name == "" || len(b.Name) > maxBackendName || modelName(b.Name) != b.Name:
		return nil, fmt.Errorf("field Name: %.100q is no name of 1 to %d bytes", b.Name, maxBackendName)
	case slices.ContainsFunc(r.backends, known):
		return nil, fmt.Errorf("field Name: %q is there twice", b.Name)
	}
	checked := &backend{name: b.Name, header: make(http.Header, len(b.Header))}
	for name, values := range b.Header {
		key := http.CanonicalHeaderKey(name)
		_, twice := checked.header[key]
		switch {
		case key == "Host" || key == "Content-Length" || key == "Transfer-Encoding":
			return nil, fmt.Errorf("field Header: %s cannot be set", key)
		case twice:
			return nil, fmt.Errorf("field Header: %.100q is there twice", key)
		}
		checked.header[key] = slices.Clone(values)
	}
	if b.BaseURL == "" {
		return checked, nil
	}
	var err error
	if checked.url, err = parseBaseURL(b.BaseURL); err != nil {
		return nil, fmt.Errorf("field BaseURL: %w", err)
	}
	if r.from == nil {
		return nil, errors.New("field BaseURL: Route.BaseURL, which it is to replace, is empty")
	}
	return checked, nil
}

// backendKey is the key of the name in a context made by WithBackend.
type backendKey struct{}

// WithBackend returns a context whose requests go to the backend of a name: for what only that one
// knows, such as a file or an earlier response. They wait for room there, and a refusal is not sent
// to another one. An empty name lets a [Route] choose again; a [Transport] alone ignores the name.
func WithBackend(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, backendKey{}, name)
}

// chosen returns the backend that WithBackend chose; nil for none.
func (r *Route) chosen(ctx context.Context) (*backend, error) {
	name, _ := ctx.Value(backendKey{}).(string)
	if name == "" {
		return nil, nil
	}
	for _, b := range r.backends {
		if b.name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("llmhttp: WithBackend: the route has no backend %.100q", name)
}

// countAs returns the name under which a model is counted at a backend.
func (r *Route) countAs(b *backend, model string) string {
	if r.CountAs != nil {
		return r.CountAs(b.name, model)
	}
	return b.standingOf(model)
}

// standingOf returns the name under which it is remembered how a model does at the backend.
func (b *backend) standingOf(model string) string { return b.name + "/" + model }

// baseURL is a URL in front of the paths of an API.
type baseURL struct {
	*url.URL
	origin string
	path   string // escaped, without a slash at its end
}

// parseBaseURL parses a base URL. Its error does not quote it: it may hold a password.
func parseBaseURL(s string) (*baseURL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("it is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("it has no scheme http or https, or no host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("it has a user, a query or a fragment")
	}
	return &baseURL{URL: u, origin: origin(u), path: strings.TrimRight(u.EscapedPath(), "/")}, nil
}
