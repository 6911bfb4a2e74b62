package proxy

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dappco.re/go/core/go-ratelimit/debugpage"
	"dappco.re/go/core/go-ratelimit/promratelimit"
)

// admin returns the handler of the operator's port: the page, /healthz and /metrics.
func (p *Proxy) admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", debugpage.Handler(p.limiter))
	mux.HandleFunc("GET /healthz", p.health)
	if events := p.Metrics; events != nil {
		registry := prometheus.NewRegistry()
		registry.MustRegister(events, promratelimit.NewCollector(p.limiter, promratelimit.CollectorOptions{Handler: events}),
			collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		closeBehind(w, r)
		bad := p.door.check(r, true)
		if bad == nil && r.URL.Path != "/healthz" { // which tells nothing
			_, bad = p.door.who(r, true)
		}
		if bad != nil {
			write(w, bad.response(r))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// health answers with 200 while calls are served, else with 503.
func (p *Proxy) health(w http.ResponseWriter, _ *http.Request) {
	h := p.limiter.Health()
	answer := struct {
		Status     string `json:"status"`
		StoreError string `json:"store_error,omitempty"`
	}{Status: "ok"}
	status := http.StatusOK
	if h.Err != nil {
		answer.StoreError = h.Err.Error()
		if p.FailClosed {
			answer.Status, status = "the shared quota cannot be used", http.StatusServiceUnavailable
		}
	}
	if p.draining.Load() {
		answer.Status, status = "draining", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client is gone
}
