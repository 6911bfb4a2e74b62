package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// show is one run of the program.
type show struct {
	service  *service
	provider *fakeprovider.Host
	url      string // of the pages
	out      io.Writer

	began time.Time
	seen  counts
}

func (s *show) introduce(work time.Duration) {
	length := "until Ctrl-C"
	if work > 0 {
		length = fmt.Sprintf("for %v", work)
	}
	fmt.Fprintf(s.out, `%d agents call %d models %s. A local provider enforces its limits and keeps a log.
metrics: %s/metrics
page:    %s/debug/ratelimit
What to look for: calls of %s stand in line, those of %s are refused here, and those
of %s by the provider, because the account has less than its profile says.
What %s allows is found: see its rate grow until the provider refuses.
%s and %s share a pool, %s, with a budget. The class %s gets three
times as much of what becomes free as %s.

`, perModel*len(models), len(models), length, s.url, s.url, queued, refused, overlooked, searched, queued, refused, shared, people, batch)
}

// work has the agents call until ctx ends, and shows how it goes.
func (s *show) work(ctx context.Context) {
	s.began = time.Now()
	defer demo.NewProgress(s.out, demo.IsTerminal(s.out), s.line).Start()()
	s.service.work(ctx, s.provider.URL, &s.seen)
}

func (s *show) line() string {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	return fmt.Sprintf("%3.0fs  %s answered, %d denied here, %d refused by the provider", time.Since(s.began).Seconds(),
		demo.Count(s.seen.answered, "call"), s.seen.denied, s.seen.by)
}

// scraped is what the metrics say of one model.
type scraped struct{ admitted, denied, refused, open float64 }

// scrape reads the program's own metrics as a Prometheus does.
func (s *show) scrape() (map[string]*scraped, error) {
	response, err := http.Get(s.url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	all := make(map[string]*scraped)
	add := func(family string, to func(of *scraped, labels map[string]string) *float64) {
		for _, m := range families[family].GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			of := all[labels["model"]]
			if of == nil {
				of = &scraped{}
				all[labels["model"]] = of
			}
			*to(of, labels) += value(m)
		}
	}
	add("ratelimit_requests_total", func(of *scraped, labels map[string]string) *float64 {
		if labels["result"] == "admitted" {
			return &of.admitted
		}
		return &of.denied
	})
	add("ratelimit_provider_rejections_total", func(of *scraped, _ map[string]string) *float64 { return &of.refused })
	add("ratelimit_active_leases", func(of *scraped, _ map[string]string) *float64 { return &of.open })
	return all, nil
}

func value(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

// report compares the metrics with the provider's log. Its error is a difference.
func (s *show) report() error {
	metrics, err := s.scrape()
	if err != nil {
		return err
	}
	records, err := s.provider.Records()
	if err != nil {
		return err
	}
	calls, limited := make(map[string]int), make(map[string]int)
	for _, r := range records {
		calls[r.Model]++
		if r.Refused {
			limited[r.Model]++
		}
	}
	var errs []error
	t := demo.NewTable(s.out)
	fmt.Fprintln(s.out)
	for _, name := range models {
		m := metrics[name]
		if m == nil {
			m = &scraped{}
		}
		t.Row(name, "metrics: %g admitted, %g denied here, %g refused by the provider; its log: %s, %d refused",
			m.admitted, m.denied, m.refused, demo.Count(calls[name], "call"), limited[name])
		if m.admitted != float64(calls[name]) || m.refused != float64(limited[name]) || m.open != 0 {
			errs = append(errs, fmt.Errorf("%s: the metrics and the provider's log differ (%g leases are open)", name, m.open))
		}
	}
	if found := s.service.limiter.Stats(searched); found.AdaptiveRPM > 0 {
		t.Row("found", "%s: %d requests a minute, %s in flight", searched, found.AdaptiveRPM, demo.Count(found.AdaptiveInFlight, "call"))
	}
	t.Row("agents", "%s answered, %d denied here, %d refused by the provider", demo.Count(s.seen.answered, "call"), s.seen.denied, s.seen.by)
	if s.seen.bad > 0 {
		errs = append(errs, fmt.Errorf("%s failed: %w", demo.Count(s.seen.bad, "call"), s.seen.err))
	}
	wrong := errors.Join(errs...)
	t.Verdict("the metrics say what the provider's log says", wrong)
	t.Flush()
	return wrong
}
