package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Upstream is a provider to which calls go. The operator names it; no request chooses another one.
type Upstream struct {
	// Name is the first segment of the paths that lead there, such as "openai". Empty is for the
	// only upstream, which gets all paths.
	Name string
	// URL is where it is: https, or http on this machine. Paths are appended to its own.
	URL *url.URL
	// Key is sent in place of the client's; empty leaves that as it is.
	Key string
	// NoRefund is llmhttp.Transport.NoRefund, for a gateway in front of OpenAI or Azure.
	NoRefund bool

	base      string // the path of URL without a slash at its end, as it is sent
	counted   string // stands before the names of models; empty for the only upstream
	transport *llmhttp.Transport
}

var upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// NewUpstream returns an upstream. An error names what is wrong with its name or its address, and
// has nothing of a key in it.
func NewUpstream(name, address string) (*Upstream, error) {
	if name != "" && !upstreamName.MatchString(name) {
		return nil, fmt.Errorf("upstream %q: a name has letters, digits, dots, dashes and underscores, at most 63", name)
	}
	of := "upstream"
	if name != "" {
		of = fmt.Sprintf("upstream %q", name)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, fmt.Errorf("%s: want an address such as https://api.openai.com", of)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: the address has a user, a query or a fragment, where a key does not belong", of)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("%s: %s://%s is neither https nor on this machine", of, u.Scheme, u.Host)
	}
	return &Upstream{Name: name, URL: u, base: strings.TrimRight(u.EscapedPath(), "/")}, nil
}

// rest returns the path of a request at the upstream, as it was sent, and whether it belongs there.
func (u *Upstream) rest(path string) (rest string, ok bool) {
	if u.Name == "" {
		return path, true
	}
	rest, ok = strings.CutPrefix(path, "/"+u.Name)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// leadsUp reports whether a path leaves its place, by the reading of any server: one may decode it,
// take a backslash for a slash, or cut parameters off a segment.
func leadsUp(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// address makes a request one to the upstream, byte for byte from the path on.
func (u *Upstream) address(out *http.Request, rest, query string) error {
	escaped := u.base + rest
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return err
	}
	out.URL.Scheme, out.URL.Host, out.Host = u.URL.Scheme, u.URL.Host, ""
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = path, escaped, query
	return nil
}

// upstreamOf returns the upstream of a path, and the rest of the path there; nil for none.
func (p *Proxy) upstreamOf(path string) (*Upstream, string) {
	for _, u := range p.Upstreams {
		if rest, ok := u.rest(path); ok {
			return u, rest
		}
	}
	return nil, ""
}

// paths lists the paths of the upstreams.
func (p *Proxy) paths() string {
	names := make([]string, len(p.Upstreams))
	for i, u := range p.Upstreams {
		names[i] = "/" + u.Name + "/"
	}
	return strings.Join(names, ", ")
}

// CountedBehind returns the name under which a limiter counts a model of an upstream, whose prefix
// stands before the names of its models: that of an alias, else of the quota, by hasQuota, of which
// it is a version. Versions are looked for behind the prefix alone: openai/gpt-4o at an upstream
// that hosts models of others is not gpt-4o at one of the name openai. A nil hasQuota takes names
// as they are.
func CountedBehind(limiter *ratelimit.RateLimiter, prefix, model string, hasQuota func(name string) bool) string {
	name := prefix + model
	if alias := limiter.CountedAs(name); alias != name || hasQuota == nil {
		return alias
	}
	if base, ok := catalog.Match(model, func(base string) bool { return hasQuota(prefix + base) }); ok {
		return prefix + base
	}
	return name
}
