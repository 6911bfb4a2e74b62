// Names that are odd, and scrapes under load.

package promratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Names that callers invent, and the limiter refuses, have no series, and take no place.
func TestInventedNames(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{MaxModels: 100})
	rl := newLimiter(t, ratelimit.Config{
		Events: h, Unknown: ratelimit.UnknownDeny, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}},
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(h, promratelimit.NewCollector(rl, promratelimit.CollectorOptions{Handler: h}))
	for i := range 1000 {
		rl.Reserve(fmt.Sprint("invented-", i), 1, 1)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := w.Body.String(); !strings.Contains(body, `ratelimit_quota_limit{dimension="rpm",model="m"`) {
		t.Errorf("the only model with a quota has no metrics, and invented names have %d series", strings.Count(body, `model="invented-`))
	}
}

// No name of a model makes a scrape fail.
func TestHostileNames(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	rl := newLimiter(t, ratelimit.Config{Events: h, Quotas: map[string]ratelimit.ModelQuota{
		"a\xff": {MaxRPM: 5}, `a\xff`: {MaxRPM: 6}, "_other": {MaxRPM: 2}, "": {MaxRPM: 3}, "a\"b\n": {MaxRPM: 1}, "\x00": {MaxRPM: 1},
	}})
	rl.SetQuota("neg", ratelimit.ModelQuota{MaxRPM: -4, MaxTPM: -1})
	rl.SetQuota("zone", ratelimit.ModelQuota{MaxRPD: 4, DayZone: "No/Where"})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h, promratelimit.NewCollector(rl, promratelimit.CollectorOptions{Handler: h}))
	for model := range rl.Models() {
		r, _ := rl.Reserve(model, 1, 1)
		r.Commit(2, 2)
		rl.CooldownFor(model, time.Hour, "x")
	}
	rl.Reserve(strings.Repeat("x", 1<<20), 1, 1)
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
	rl.Close()
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

// A long name is cut, so that a scrape stays small; two long names stay two.
func TestLongNames(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	rl := newLimiter(t, ratelimit.Config{Events: h, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}}})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h, promratelimit.NewCollector(rl, promratelimit.CollectorOptions{Handler: h}))
	long := strings.Repeat("x", 1<<20)
	rl.SetPool(long, ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}})
	for _, model := range []string{long + "1", long + "2", long + "\xff", "\xff" + long} {
		rl.Reserve(model, 1, 1)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	models := make(map[string]bool)
	for line := range strings.Lines(w.Body.String()) {
		if after, ok := strings.CutPrefix(line, `ratelimit_requests_total{class="",code="ok",model="`); ok {
			models[after] = true
		}
	}
	if w.Code != http.StatusOK || w.Body.Len() > 500_000 || len(models) != 4 {
		t.Errorf("status %d, %d bytes, %d models, want 4 in less", w.Code, w.Body.Len(), len(models))
	}
}

// The handler is scraped while events come, and can be registered once at a time.
func TestScrapeUnderTraffic(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	rl := newLimiter(t, ratelimit.Config{Events: h, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 500}}})
	c := promratelimit.NewCollector(rl, promratelimit.CollectorOptions{Handler: h})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h, c)
	if err := registry.Register(c); err == nil {
		t.Error("twice")
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r, _ := rl.Reserve(fmt.Sprint("m-", w, "-", i%500), 1, 1)
				r.Commit(1, 2)
			}
		})
	}
	for range 20 {
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
	if !registry.Unregister(h) || !registry.Unregister(c) {
		t.Error("unregister")
	}
	registry.MustRegister(c, h)
}
