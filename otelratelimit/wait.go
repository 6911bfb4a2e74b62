package otelratelimit

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// The attributes of the span that no metric has.
const (
	reasonKey     = "ratelimit.reason"
	retryAfterKey = "ratelimit.retry_after" // in seconds
	inputKey      = "ratelimit.estimated.input_tokens"
	outputKey     = "ratelimit.estimated.output_tokens"
)

// span tells of a wait that is over, as a child of the span in ctx that is linked to it: so it is
// found from the call even where the sampler makes it a trace of its own.
func (h *Handler) span(ctx context.Context, e *ratelimit.Event, m *instruments.Measurements) {
	now := time.Now()
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(now.Add(-e.Wait)), trace.WithAttributes(h.spanAttributes(e, m)...),
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		opts = append(opts, trace.WithLinks(trace.LinkFromContext(ctx)))
	}
	_, span := h.tracer.Start(ctx, "ratelimit.wait", opts...)
	if e.Kind == ratelimit.EventRefused && span.IsRecording() {
		reason := m.Result
		if e.Decision != nil && e.Decision.Reason != "" {
			reason = e.Decision.Reason
		}
		span.SetStatus(codes.Error, strings.ToValidUTF8(reason, "\uFFFD"))
	}
	span.End(trace.WithTimestamp(now))
}

// spanAttributes returns the attributes of a span: words of the limiter alone. The text of Err
// could hold one of the program.
func (h *Handler) spanAttributes(e *ratelimit.Event, m *instruments.Measurements) []attribute.KeyValue {
	key := h.series.Holds(instruments.KeyOf(e.Model, e.Provider))
	set := h.config.attributesWith(
		name(instruments.Model, key.Model),
		attribute.String(instruments.Result.Name, m.Result),
		attribute.Int(inputKey, e.Estimated.PromptTokens),
		attribute.Int(outputKey, e.Estimated.OutputTokens),
	)
	if key.Provider != "" {
		set = append(set, name(instruments.Provider, providerName(key.Provider)))
	}
	if e.Kind == ratelimit.EventRefused {
		set = append(set, attribute.String(instruments.ErrorType.Name, m.Result))
	}
	if e.Class != "" {
		set = append(set, name(instruments.Class, e.Class))
	}
	d := e.Decision
	if d == nil {
		return set
	}
	set = append(set, name(instruments.Code, string(d.Code)), attribute.String(reasonKey, strings.ToValidUTF8(d.Reason, "\uFFFD")))
	if d.Pool != "" {
		set = append(set, name(instruments.Pool, d.Pool))
	}
	if d.Cause != "" {
		set = append(set, name(instruments.Cause, string(d.Cause)))
	}
	if d.RetryAfter > 0 {
		set = append(set, attribute.Float64(retryAfterKey, d.RetryAfter.Seconds()))
	}
	return set
}
