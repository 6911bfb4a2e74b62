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
	adminGrace    = time.Second
)

// newServer returns a server of a handler, whose requests end with ctx.
func (p *Proxy) newServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: min(headerTimeout, p.idleTimeout), IdleTimeout: keptIdle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // which would answer before the door is asked
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ErrorLog:                     slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
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
	requests, cut := context.WithCancel(context.Background())
	defer cut()
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
		admin.ReadTimeout, admin.WriteTimeout = admin.ReadHeaderTimeout, p.idleTimeout
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
func (p *Proxy) drain(s *http.Server, grace time.Duration, cut context.CancelFunc) {
	p.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := s.Shutdown(ctx)
	ended := make(chan struct{})
	go func() {
		p.open.Wait() // also for upgraded connections, which Shutdown does not know
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		p.log.Warn("calls were cut that did not end in time", "drain_timeout", grace)
	}
	cut()
	s.Close()
	select {
	case <-ended: // so that each is settled before the limiter closes
	case <-time.After(adminGrace):
	}
}
