// Package otelratelimit tells OpenTelemetry what a limiter does: metrics and spans, by the API
// alone, so the program chooses the SDK. A Handler is an EventHandler for Config.Events; Observe
// adds the metrics that are read from the limiter.
//
//	handler, err := otelratelimit.NewHandler()
//	rl, err := ratelimit.NewWithConfig(ratelimit.Config{Events: handler})
//	registration, err := handler.Observe(rl)
//
// Take module promratelimit if the program has a Prometheus registry and no OpenTelemetry. Both
// tell the same.
//
// # Metrics
//
// All but those of the store and of pools have the attributes gen_ai.request.model, the name under
// which the model is counted, and gen_ai.provider.name, if a profile tells the provider.
//
//	ratelimit.requests               counter       ratelimit.code, ratelimit.result, ratelimit.class
//	ratelimit.request.time_in_queue  histogram, s  ratelimit.result, ratelimit.class
//	ratelimit.queued_requests        up-down       ratelimit.class
//	ratelimit.active_leases          up-down
//	ratelimit.lease.duration         histogram, s
//	ratelimit.quota.limit            gauge         ratelimit.dimension, ratelimit.source
//	ratelimit.quota.used             gauge         the same
//	ratelimit.quota.external         gauge         the same
//	ratelimit.quota.utilization      gauge, 1      the same
//	ratelimit.quota.found            gauge         ratelimit.dimension
//	ratelimit.tokens                 counter       ratelimit.kind, gen_ai.token.type
//	ratelimit.spend                  counter, USD  ratelimit.class
//	ratelimit.budget.limit           gauge, USD    ratelimit.period
//	ratelimit.budget.spent           gauge, USD    ratelimit.period
//	ratelimit.estimate.ratio         histogram, 1
//	ratelimit.provider.rejections    counter       http.response.status_code, error.type
//	ratelimit.provider.pause         gauge, s      ratelimit.cause
//	ratelimit.profile.age            gauge, s
//	ratelimit.store.duration         histogram, s  db.system.name, ratelimit.operation
//	ratelimit.store.degraded         gauge
//
// Those of pools have the attribute ratelimit.pool. A call is charged to its model and to each of
// its pools, so they are metrics of their own: a sum over models counts no call twice.
//
//	ratelimit.pool.denials           counter       ratelimit.code, ratelimit.result
//	ratelimit.pool.queued_requests   up-down
//	ratelimit.pool.active_leases     up-down
//	ratelimit.pool.quota.*           gauge         as ratelimit.quota.*
//	ratelimit.pool.budget.*          gauge, USD    as ratelimit.budget.*
//
// ratelimit.result is admitted, refused, canceled (the caller went away), deadline_exceeded (its
// deadline passed in line), never_fits or queue_full; the time in queue is also that of calls that
// passed WaitForCapacity. ratelimit.code is the DecisionCode: of a refusal,
// or why an admitted call had to wait, or "ok". Calls that did not wait are not in the time in
// queue. ratelimit.dimension is rpm, tpm, rpd, itpm, otpm, tpd or in_flight, and ratelimit.source
// who said the limit, as LimitState.Origin has it. ratelimit.kind is reserved, settled or returned.
// ratelimit.class is one of Config.Classes, and left out for calls of none; ratelimit.period is day
// or month.
//
// The shape is that of ASP.NET Core's rate-limiting metrics, which are stable. Attributes are those
// of semantic conventions 1.41.0, the last release that has gen_ai.*; a test compares them.
//
// Names that are not UTF-8 are escaped, and those longer than 256 bytes are cut: no exporter could
// send the former. Models beyond WithMaxModels are counted together as "_other", without quotas.
// The SDK has a bound
// of its own: 2,000 attribute sets an instrument, which some 300 models with six limits reach.
// Raise it by its WithCardinalityLimit. Keys, prompts, replies and the texts of errors are in no
// metric and no span.
//
// Measurements have the context of the call, so they can have exemplars of its trace, all but
// ratelimit.tokens, which is counted in memory.
//
// # Spans
//
// A call that stood in line gets a span "ratelimit.wait" of that time, a child of the span in
// its context and linked to it, with the decision, its pool and the class as attributes; if it
// was refused, with the status Error. Other calls get none.
//
// # Metrics of the GenAI conventions
//
// With WithGenAIMetrics, and as commit 4f85037ef86e of open-telemetry/semantic-conventions-genai
// (2026-10-06, gen-ai-dev/1.42.0-dev) has them: gen_ai.client.inference.duration,
// gen_ai.client.inference.usage.input_tokens and output_tokens, and
// gen_ai.client.inference.operation.input_tokens and output_tokens. The duration is from the
// admission to the settlement. The conventions have the status Development, so a minor version of
// this module may follow them.
package otelratelimit
