package proxy

import (
	"errors"
	"net/http"
	"net/http/httputil"
	"os"
	"regexp"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/pieces"
)

// ownHeader begins the headers of requests that are for the proxy.
const ownHeader = "X-Ratelimit-"

// rewrite makes the request to the upstream.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	out := pr.Out
	if x.upstream.address(out, x.rest, pr.In.URL.RawQuery) != nil {
		out.URL.Host = "" // which no Transport sends; an escape that is none does not pass the server
	}
	for name, values := range pr.In.Header {
		if strings.HasPrefix(name, "X-Forwarded") || name == "Forwarded" { // which the reverse proxy takes off
			out.Header[name] = values
		}
		if strings.HasPrefix(name, ownHeader) {
			delete(out.Header, name)
		}
	}
	reduceEncoding(out.Header, p.Heartbeat > 0)
	if p.door.clients != nil && x.upstream.Key == "" {
		p.door.clients.withoutTokens(out)
	}
	key, place := keyOf(out.Header, out.URL.RawQuery)
	x.key = key
	if x.upstream.Key != "" {
		x.key = x.upstream.Key
		x.upstream.setKey(out, place)
	}
	out.GetBody = pr.In.GetBody
}

// zeroQuality is that of a coding which a client does not accept.
var zeroQuality = regexp.MustCompile(`^\s*q=0(\.0*)?\s*$`)

// reduceEncoding leaves gzip alone of what a client accepts, since that is what can be read here; a
// client that does not accept it, and one that may get comments before the answer, gets plain text.
func reduceEncoding(h http.Header, none bool) {
	gzip := false
	for _, list := range h["Accept-Encoding"] {
		for coding := range strings.SplitSeq(list, ",") {
			name, quality, _ := strings.Cut(coding, ";")
			gzip = gzip || strings.EqualFold(strings.TrimSpace(name), "gzip") && !zeroQuality.MatchString(quality)
		}
	}
	h.Del("Accept-Encoding")
	if gzip && !none {
		h.Set("Accept-Encoding", "gzip")
	}
}

// withBody reads the body of a request. It returns nil for a client that is gone.
func (p *Proxy) withBody(r *http.Request, x *exchange) (*http.Request, *fault) {
	if opensSocket(r) {
		return r, nil
	}
	r.Header.Del("Upgrade") // to what is no WebSocket, such as h2c; the body is one as any other
	body, bad, err := x.read(r)
	switch {
	case bad != nil:
		return r, bad
	case errors.Is(err, errNoRoom):
		closeBehind(x.writer, r)
		asked := r.Clone(r.Context())
		if err := x.upstream.address(asked, x.rest, ""); err == nil {
			write(x.writer, x.noRoom(asked))
		}
		return nil, nil
	case errors.Is(err, os.ErrDeadlineExceeded): // which ends the context, too
		return r, &fault{http.StatusRequestTimeout, "the body does not come"}
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // a return would answer with 200
	case err != nil:
		return r, &fault{http.StatusBadRequest, "the body cannot be read"}
	}
	return x.withHeld(r, body), nil
}

// failed ends the answer to a client that is gone.
func (p *Proxy) failed(http.ResponseWriter, *http.Request, error) {
	panic(http.ErrAbortHandler)
}

// buffers are those of package pieces for the reverse proxy.
type buffers struct{}

// Get returns a buffer.
func (buffers) Get() []byte { return pieces.Buffers.Get().(*[pieces.Size]byte)[:] }

// Put takes a buffer back.
func (buffers) Put(b []byte) { pieces.Buffers.Put((*[pieces.Size]byte)(b)) }
