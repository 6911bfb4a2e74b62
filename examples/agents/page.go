package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

const pagePath = "/debug/ratelimit"

// page is the server of -page.
type page struct {
	server *http.Server
	url    string
	served chan error
}

// openPage shows what the limiter does at an address. It returns nil for no address.
func openPage(addr string, limiter *ratelimit.RateLimiter) (*page, error) {
	if addr == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-page: %w", err)
	}
	at := listener.Addr().(*net.TCPAddr)
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = "localhost"
	}
	mux := http.NewServeMux()
	mux.Handle(pagePath, debugpage.Handler(limiter))
	mux.Handle("/{$}", http.RedirectHandler(pagePath, http.StatusFound))
	p := &page{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		url:    fmt.Sprintf("http://%s%s", net.JoinHostPort(host, fmt.Sprint(at.Port)), pagePath),
		served: make(chan error, 1),
	}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// introduce says where the page is.
func (p *page) introduce(out io.Writer) {
	if p != nil {
		fmt.Fprintf(out, "What the limiter does is at %s\n\n", p.url)
	}
}

// stay keeps the page after the run until Ctrl-C.
func (p *page) stay(ctx context.Context, out io.Writer) {
	if p == nil || ctx.Err() != nil {
		return
	}
	fmt.Fprintf(out, "\n%s stays until Ctrl-C\n", p.url)
	<-ctx.Done()
}

// close ends the server, and the streams of those who watch.
func (p *page) close() error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("-page: %w", err), p.server.Close())
	}
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("-page: %w", served))
	}
	return err
}
