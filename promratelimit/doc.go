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
// Those of the Handler, all with the labels model and provider but for the last two:
//
//	ratelimit_requests_total                  code, result, class
//	ratelimit_request_time_in_queue_seconds   result, class (histogram)
//	ratelimit_lease_duration_seconds          (histogram)
//	ratelimit_tokens_total                    kind, token_type
//	ratelimit_spend_dollars_total             class
//	ratelimit_estimate_ratio                  (histogram)
//	ratelimit_provider_rejections_total       status, error_type
//	ratelimit_pool_denials_total              pool, code, result
//	ratelimit_store_duration_seconds          system, operation (histogram)
//
// Those of the collector, all with model and provider but for those of pools and of the store:
//
//	ratelimit_queued_requests                 class
//	ratelimit_active_leases
//	ratelimit_quota_limit                     dimension, source
//	ratelimit_quota_used                      dimension, source
//	ratelimit_quota_external                  dimension, source
//	ratelimit_quota_utilization_ratio         dimension, source
//	ratelimit_quota_found                     dimension
//	ratelimit_provider_pause_seconds          cause
//	ratelimit_profile_age_seconds
//	ratelimit_budget_limit_dollars            period
//	ratelimit_budget_spent_dollars            period
//	ratelimit_pool_queued_requests            pool
//	ratelimit_pool_active_leases              pool
//	ratelimit_pool_quota_limit                pool, dimension, source
//	ratelimit_pool_quota_used                 pool, dimension, source
//	ratelimit_pool_quota_external             pool, dimension, source
//	ratelimit_pool_quota_utilization_ratio    pool, dimension, source
//	ratelimit_pool_quota_found                pool, dimension
//	ratelimit_pool_budget_limit_dollars       pool, period
//	ratelimit_pool_budget_spent_dollars       pool, period
//	ratelimit_store_degraded
//
// model is the name under which a model is counted, class one of Config.Classes, or empty. A call
// is charged to its model and to each of its pools, so pools have metrics of their own: a sum over
// models counts no call twice. Module otelratelimit has the same metrics for OpenTelemetry.
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
