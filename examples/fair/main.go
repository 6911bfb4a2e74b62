// Fair shows people and an endless batch on the quota of one model, with classes and without.
//
//	go run ./examples/fair
//
// For three minutes a strict server allows 60 requests a minute. Who gets no room within five
// seconds takes a cheaper model. With classes nearly all people get the better model within two
// seconds, and the batch all the rest; without, most people get the cheaper one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
)

const (
	primary  = "gpt-4.1"
	fallback = "gpt-4.1-mini"
	patience = 5 * time.Second // of a person, for the primary model
	workers  = 20
)

// quotas are those of the account. A short Burst spreads the calls over the minute. Otherwise the
// batch would take the share of a whole minute at once, and then nobody could go ahead of it. It is
// longer than a second, so that a call that arrives late does not delay the next one.
var quotas = map[string]ratelimit.ModelQuota{
	primary:  {MaxRPM: 60, Burst: 2 * time.Second},
	fallback: {MaxRPM: 60},
}

// classes say that people go first. The batch gets what they leave, which is more than half.
var classes = map[string]ratelimit.Class{"person": {Ahead: true}, "batch": {}}

// config is how the program runs.
type config struct {
	length  time.Duration
	people  int
	seed    uint64
	classes map[string]ratelimit.Class // of the service that has some
	host    func(http.Handler) (*host, error)
}

func main() {
	short := flag.Bool("short", false, "run for one minute instead of three")
	flag.Parse()
	cfg := config{length: 3 * time.Minute, people: 86, seed: 1, classes: classes, host: loopback}
	if *short {
		cfg.length, cfg.people = time.Minute, 29
	}
	if err := demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, cfg, out) }); err != nil {
		fmt.Fprintln(os.Stderr, "fair:", err)
		os.Exit(1)
	}
}

// run has both services work beside each other, and judges the one with classes.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "fair")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	with, err := newService(cfg, folder, cfg.classes)
	if err != nil {
		return err
	}
	defer with.close()
	without, err := newService(cfg, folder, nil)
	if err != nil {
		return err
	}
	defer without.close()

	introduce(out, cfg)
	line := func() string { return "with classes: " + with.line() + ". Without: " + without.line() }
	stopShowing := demo.NewProgress(out, demo.IsTerminal(out), line).Start()
	var both sync.WaitGroup
	for _, s := range []*service{with, without} {
		both.Go(func() { s.run(ctx, cfg) })
	}
	both.Wait()
	stopShowing()
	return report(out, cfg, with, without)
}

// arrivals returns when the people come: about every two seconds, at random moments.
func (cfg config) arrivals() []time.Duration {
	random := rand.New(rand.NewPCG(cfg.seed, 0))
	every := cfg.length / time.Duration(cfg.people)
	all := make([]time.Duration, cfg.people)
	for i := range all {
		all[i] = time.Duration(i)*every + time.Duration(random.Int64N(int64(every)))
	}
	return all
}

// host is a server that can be reached.
type host struct {
	url       string
	transport *http.Transport
	stop      func()
}

// loopback serves a handler on the loopback interface.
func loopback(handler http.Handler) (*host, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 2 * workers
	return &host{url: "http://" + listener.Addr().String(), transport: transport, stop: func() {
		transport.CloseIdleConnections()
		server.Close()
	}}, nil
}
