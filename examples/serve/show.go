package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

const (
	model = "gpt-4o-mini"
	// The quota of each tenant. Ours at the provider is as large as those of all tenants.
	tenantRPM, tenantTPM = 120, 40_000
)

// show is one run of the program: a provider, one or two gateways, and three tenants.
type show struct {
	cfg      config
	out      io.Writer
	provider *fakeprovider.Server
	tenants  []*tenant
	gateways []string // URLs
	began    time.Time
}

// run has tenants call a gateway, and returns an error if a quiet one has lost anything.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	s := &show{cfg: cfg, out: out, tenants: newTenants()}
	quota := ratelimit.ModelQuota{MaxRPM: tenantRPM * len(s.tenants), MaxTPM: tenantTPM * len(s.tenants)}
	s.provider = fakeprovider.New(fakeprovider.Options{Answer: answer}, map[string]fakeprovider.Config{
		model: {Limits: fakeprovider.Limits{fakeprovider.RPM: quota.MaxRPM, fakeprovider.TPM: quota.MaxTPM}},
	})
	upstream := httptest.NewServer(s.provider)
	defer upstream.Close()
	told := settings{
		Upstream: upstream.URL, APIKey: "sk-ours", Quota: quota, Tenants: make(map[string]string),
		RPM: tenantRPM, TPM: tenantTPM, Redis: cfg.redis, Prefix: "serve-" + rand.Text(),
	}
	for _, t := range s.tenants {
		told.Tenants[t.apiKey] = t.name
	}
	stop, err := s.open(ctx, told)
	if err != nil {
		return errors.Join(err, stop())
	}
	s.introduce()
	s.call(ctx)
	http.DefaultClient.CloseIdleConnections() // a gateway would wait for one that was never used
	err = errors.Join(s.report(), stop())
	if err == nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// answer takes 100 to 300 ms.
func answer(c *fakeprovider.Call) fakeprovider.Answer {
	a := fakeprovider.DefaultAnswer(c)
	a.Delay, a.Spread = 100*time.Millisecond, 200*time.Millisecond
	return a
}

// open starts the gateways: one in this process, or two processes with Redis. The function that
// it returns ends them, also after an error.
func (s *show) open(ctx context.Context, told settings) (stop func() error, err error) {
	if told.Redis == "" {
		g, err := newGateway(ctx, told)
		if err != nil {
			return func() error { return nil }, err
		}
		server := httptest.NewServer(g)
		s.gateways = []string{server.URL}
		return func() error { server.Close(); return g.close(context.Background()) }, nil
	}
	var processes []*process
	stop = func() (err error) {
		for _, p := range processes {
			err = errors.Join(err, p.end())
		}
		return errors.Join(err, leaveNothing(told))
	}
	for range 2 {
		p, err := startProcess(told)
		if err != nil {
			return stop, err
		}
		processes, s.gateways = append(processes, p), append(s.gateways, p.url)
	}
	return stop, nil
}

// introduce says what will be shown.
func (s *show) introduce() {
	where := "a gateway"
	if len(s.gateways) > 1 {
		where = strconv.Itoa(len(s.gateways)) + " processes of a gateway, which count together through Redis,"
	}
	fmt.Fprintf(s.out, `Three tenants call %s with %d requests and %s tokens a minute each.
The gateway has %d requests and %s tokens a minute at the provider, which enforces them.
%s sends as much as it can, and comes back at once when it is refused; the others send a
call a second.

What to look for: the quiet tenants get each answer, as fast as the provider gives it. It takes %v.

`, where, tenantRPM, demo.Group(tenantTPM), tenantRPM*len(s.tenants), demo.Group(tenantTPM*len(s.tenants)),
		s.tenants[0].name, s.cfg.length)
}

// call has the tenants call until the run is over.
func (s *show) call(ctx context.Context) {
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.length)
	defer cancel()
	stopShowing := demo.NewProgress(s.out, demo.IsTerminal(s.out), s.line).Start()
	defer stopShowing()
	var all sync.WaitGroup
	for _, t := range s.tenants {
		for caller := range t.callers {
			all.Go(func() { t.run(ctx, s.gateways, caller) })
		}
	}
	all.Wait()
}

// line is the state of a run, in 100 columns.
func (s *show) line() string {
	line := fmt.Sprintf("%3.0fs", time.Since(s.began).Seconds())
	for _, t := range s.tenants {
		c := t.counts()
		line += fmt.Sprintf("  %s %d answered, %d refused", t.name, c.answered, c.refused)
	}
	return line
}
