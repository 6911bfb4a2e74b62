// Package promratelimit tells Prometheus what limiters do.
//
// A [Handler] counts events, as Config.Events of a limiter; a collector by [NewCollector] reads the
// limiter at each scrape. Register both:
//
//	handler := promratelimit.NewHandler(promratelimit.HandlerOptions{})
//	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{Events: handler})
//	…
//	prometheus.MustRegister(handler,
//		promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: handler}))
//
// # Metrics
//
// Those of the Handler, all with the labels model and provider but for the last:
//
//	ratelimit_requests_total                  code, result
//	ratelimit_request_time_in_queue_seconds   result (histogram)
//	ratelimit_lease_duration_seconds          (histogram)
//	ratelimit_tokens_total                    kind, token_type
//	ratelimit_spend_dollars_total
//	ratelimit_estimate_ratio                  (histogram)
//	ratelimit_provider_rejections_total       status, error_type
//	ratelimit_store_duration_seconds          system, operation (histogram)
//
// Those of the collector, all with model and provider but for the last:
//
//	ratelimit_queued_requests
//	ratelimit_active_leases
//	ratelimit_quota_limit                     dimension, source
//	ratelimit_quota_used                      dimension, source
//	ratelimit_quota_external                  dimension, source
//	ratelimit_quota_utilization_ratio         dimension, source
//	ratelimit_quota_found                     dimension
//	ratelimit_provider_pause_seconds          cause
//	ratelimit_profile_age_seconds
//	ratelimit_store_degraded
//
// model is the name under which a model is counted. Module otelratelimit has the same metrics for
// OpenTelemetry.
//
// # Histograms
//
// Each histogram is a classic one, with buckets from 5 ms to 10 minutes, and a native one. A
// Prometheus that scrapes native histograms keeps the classic buckets, too, with
// always_scrape_classic_histograms. The queries in the folders dashboard and alerts understand
// both.
//
// # Dashboard and alerts
//
// dashboard/ratelimit.json is a dashboard to import into Grafana. alerts/ratelimit.yml are alert
// rules for Prometheus. Each alert says what to do.
package promratelimit
