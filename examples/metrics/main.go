// Metrics shows a service whose limiter can be watched, in Prometheus and in a browser.
//
//	go run -C examples/metrics .
//
// Sixteen agents call four models for twenty seconds: one waits in line, one is refused here, one
// is told 429 and pauses, and of one the limiter finds the limit. Then the metrics are compared
// with the provider's log. With -serve it stays, with the addresses of /metrics and of the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// service is what the program is about: a limiter, a client that respects it, and the pages that
// show what it does.
type service struct {
	limiter *ratelimit.RateLimiter
	client  *http.Client
	pages   http.Handler
}

// newService returns a service that keeps its usage in folder. Its calls wait for room for a time,
// or without end if that is zero. The caller must close it.
func newService(folder string, cfg ratelimit.Config, wait time.Duration) (*service, error) {
	metrics := promratelimit.NewHandler(promratelimit.HandlerOptions{
		// Another limiter of the program needs another name.
		ConstLabels: prometheus.Labels{"limiter": "agents"},
		// With OpenTelemetry it is the ID of trace.SpanContextFromContext(ctx), if IsSampled.
		Exemplar: traceOf,
	})
	cfg.Events = metrics
	limiter, err := ratelimit.NewWithSQLiteConfig(filepath.Join(folder, "usage.db"), cfg)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics,
		promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: metrics}))
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, // for the exemplars
	}))
	pages.Handle("GET /debug/ratelimit", debugpage.Handler(limiter))
	client := &http.Client{Transport: &llmhttp.Transport{Limiter: limiter, MaxWait: wait}}
	return &service{limiter, client, pages}, nil
}

// close saves the usage.
func (s *service) close() error {
	s.client.CloseIdleConnections()
	return s.limiter.Close()
}

// config is the command line.
type config struct {
	address string
	work    time.Duration // zero is until Ctrl-C
	hang    string        // one of the names of hangs; empty for a service that is well
}

func main() { os.Exit(status()) }

func status() int {
	var cfg config
	flag.StringVar(&cfg.address, "address", "127.0.0.1:0", "`address` of the pages; port 0 is a free one")
	flag.DurationVar(&cfg.work, "for", 20*time.Second, "how long the agents work")
	serve := flag.Bool("serve", false, "work and serve until Ctrl-C")
	flag.StringVar(&cfg.hang, "hang", "", "hang, for a `cause`: "+strings.Join(slices.Sorted(maps.Keys(hangs)), ", ")+" or random")
	seed := flag.Uint64("seed", 1, "`number` that chooses with -hang random")
	flag.Parse()
	if cfg.hang == "random" {
		cfg.hang = randomHang(*seed)
	}
	switch _, known := hangs[cfg.hang]; {
	case flag.NArg() > 0 || cfg.work <= 0 || cfg.hang != "" && !known:
		fmt.Fprintln(os.Stderr, "metrics: unexpected argument, no such -hang, or -for is not above zero")
		return 2
	case *serve:
		cfg.work = 0
	}
	if err := demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, cfg, out) }); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		return 1
	}
	return 0
}

// run has the agents work with a provider in a folder of its own, which it removes again.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "go-ratelimit-metrics-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if cfg.work > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.work)
		defer cancel()
	}
	if cfg.hang != "" {
		return runHang(ctx, cfg, folder, out)
	}
	return runWell(ctx, cfg, folder, out)
}

// runWell compares the metrics with the provider's log in the end.
func runWell(ctx context.Context, cfg config, folder string, out io.Writer) (err error) {
	provider, err := startProvider(filepath.Join(folder, "provider.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	s, err := newService(folder, well(), patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	url, stop, err := s.serve(cfg.address)
	if err != nil {
		return err
	}
	defer stop()
	show := &show{service: s, provider: provider, url: url, out: out}
	show.introduce(cfg.work)
	show.work(ctx)
	return show.report()
}

// serve serves the pages until stop is called.
func (s *service) serve(address string) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: s.pages, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() {
		server.Close()
		<-served
	}, nil
}
