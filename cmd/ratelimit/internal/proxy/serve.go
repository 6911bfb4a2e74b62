package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	maxHeader     = 64<<10 - 4<<10 // beside 4 KiB that net/http adds
	headerTimeout = 10 * time.Second
	keptIdle      = 2 * time.Minute
	cutGrace      = time.Second
)

// newServer returns a server of a handler, whose requests end with ctx.
func (p *Proxy) newServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: min(headerTimeout, p.IdleTimeout), IdleTimeout: keptIdle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // which would answer before the door is asked
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ErrorLog:                     slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
}

// Listeners are where a proxy serves. Admin and TLS may be nil.
type Listeners struct {
	Clients net.Listener
	Admin   net.Listener
	TLS     *tls.Config // for both
}

// Serve answers clients until ctx ends, and then for as long as their calls take, but not longer
// than grace. It closes the listeners. Calls that are open then are cut, which is no error.
func (p *Proxy) Serve(ctx context.Context, on Listeners, grace time.Duration) error {
	requests, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	clients := p.newServer(requests, p)
	failed := make(chan error, 2)
	serve := func(s *http.Server, l net.Listener) {
		if on.TLS != nil {
			s.TLSConfig = on.TLS.Clone()
			failed <- s.ServeTLS(l, "", "")
			return
		}
		failed <- s.Serve(l)
	}
	go serve(clients, on.Clients)
	if on.Admin != nil {
		admin := p.newServer(requests, p.admin())
		admin.ReadTimeout, admin.WriteTimeout = admin.ReadHeaderTimeout, p.IdleTimeout
		defer admin.Close()
		go serve(admin, on.Admin)
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	p.drain(clients, grace, cut)
	p.base.CloseIdleConnections()
	return err
}

// drain lets the open calls of a server end, and cuts those that do not end in time.
func (p *Proxy) drain(s *http.Server, grace time.Duration, cut context.CancelCauseFunc) {
	p.draining.Store(true)
	if open := p.open.Load(); open > 0 {
		p.Log.Warn("stopping: open calls may end; another signal cuts them", "open", open, "waiting", p.room.waiting.Load(), "drain_timeout", grace)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := s.Shutdown(ctx)
	if !p.idle(ctx) || errors.Is(err, context.DeadlineExceeded) {
		p.Log.Warn("calls were cut that did not end in time", "drain_timeout", grace)
	}
	cut(errStops)
	last, done := context.WithTimeout(context.Background(), cutGrace)
	defer done()
	p.idle(last) // so that each is told and settled before the limiter closes
	s.Close()
}

// errStops ends what is open when the time to drain is over.
var errStops = errors.New("the proxy stops")

// idle waits until no request is open, upgraded connections included, which Shutdown does not know.
// It reports false where ctx ends before.
func (p *Proxy) idle(ctx context.Context) bool {
	often := time.NewTicker(5 * time.Millisecond)
	defer often.Stop()
	for p.open.Load() > 0 {
		select {
		case <-often.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
