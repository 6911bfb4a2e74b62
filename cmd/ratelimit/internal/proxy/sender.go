package proxy

import (
	"io"
	"net/http"
	"time"
)

// newBase returns what sends requests: as http.DefaultTransport does, but that it neither asks for
// compressed answers by itself nor keeps few connections to a host.
func newBase() *http.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DisableCompression = true
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 256
	base.ExpectContinueTimeout = 0 // the body is here already: nobody has to be asked for it
	base.ResponseHeaderTimeout = 10 * time.Minute
	return base
}

// sender sends what has its place in the quota.
type sender struct{ *http.Transport }

// RoundTrip sends a request, which then waits no more.
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	if x := exchangeOf(req.Context()); x != nil {
		x.room.leave()
	}
	resp, err := s.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &lateEnd{ReadCloser: resp.Body}
	}
	return resp, err
}

// lateEnd tells the end of a body behind its last bytes, and not with them. At the end the call is
// settled, which takes a write to the shared quota: the client has its answer before.
type lateEnd struct {
	io.ReadCloser
	ended bool
}

// Read reads from the body.
func (b *lateEnd) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if n > 0 && err == io.EOF {
		b.ended, err = true, nil
	}
	return n, err
}
