package otelratelimit

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// ErrObserving is returned by Observe while the Handler observes a limiter: the gauges of two would
// overwrite each other. Make a Handler for each limiter, and tell them apart by WithAttributes.
var ErrObserving = errors.New("the handler observes a limiter already")

var errClosed = errors.New("the handler is closed")

// Observe adds the metrics that are read from a limiter at each collection: the line, the open
// reservations, the limits and what is used of them, cooldowns, the store and the age of profiles.
// A collection takes a few microseconds a model, and never holds the limiter for longer than one
// Explain does. Unregister the result to end it; then another limiter may be observed.
//
// It fails with ErrObserving while another limiter is observed, if rl is nil, and after Close.
func (h *Handler) Observe(rl *ratelimit.RateLimiter) (metric.Registration, error) {
	if rl == nil {
		return nil, errors.New("observe: no limiter")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.counting == nil:
		return nil, fmt.Errorf("observe: %w", errClosed)
	case h.observed != nil:
		return nil, fmt.Errorf("observe: %w", ErrObserving)
	}
	var all []metric.Observable
	for id := range instruments.List {
		switch {
		case h.whole[id] != nil:
			all = append(all, h.whole[id])
		case h.broken[id] != nil:
			all = append(all, h.broken[id])
		}
	}
	made, err := h.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		h.observe(rl, o)
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	h.observed = &registration{handler: h, made: made}
	return h.observed, nil
}

// observe tells the samples of a limiter. Those of one attribute set come in a row.
func (h *Handler) observe(rl *ratelimit.RateLimiter, o metric.Observer) {
	var last instruments.Labels
	var with *options // nil before the first sample
	var perModel bool // a model may be named ""
	holds := instruments.Holds{Model: h.series.Holds, Pool: h.pools.Holds}
	instruments.Gauges(rl, holds, func(s *instruments.Sample) bool {
		if is := instruments.List[s.ID].PerModel; with == nil || s.Labels != last || is != perModel {
			with, last, perModel = h.sampled(s), s.Labels, is
		}
		if whole := h.whole[s.ID]; whole != nil {
			o.ObserveInt64(whole, int64(s.Value), with.observe...)
		} else {
			o.ObserveFloat64(h.broken[s.ID], s.Value, with.observe...)
		}
		return true
	})
}

// sampled returns the attributes of a sample.
func (h *Handler) sampled(s *instruments.Sample) *options {
	var of *attributes
	l := &s.Labels
	switch {
	case l.Pool != "":
		of = h.pools.Of(l.Pool)
	case instruments.List[s.ID].PerModel:
		of = h.series.Of(l.Key).of(l.Class)
	default:
		return h.alone
	}
	switch {
	case l.Dimension != "":
		return of.points.Of(point{ID: instruments.QuotaLimit, a: l.Dimension, b: l.Source})
	case l.Period != "":
		return of.points.Of(point{ID: instruments.BudgetLimit, a: l.Period})
	case l.Cause != "":
		return of.points.Of(point{ID: instruments.ProviderPause, a: l.Cause})
	}
	return of.alone
}

// Close ends the metrics that are collected from the Handler, also those of Observe. Events that
// come later are still counted where the meter counts them itself. Closing again does nothing.
func (h *Handler) Close() error {
	h.mu.Lock()
	counting, observed := h.counting, h.observed
	h.counting, h.observed = nil, nil
	h.mu.Unlock()
	var errs []error
	if observed != nil {
		errs = append(errs, observed.made.Unregister())
	}
	if counting != nil {
		errs = append(errs, counting.Unregister())
	}
	return errors.Join(errs...)
}

// registration is the result of Observe.
type registration struct {
	embedded.Registration
	handler *Handler
	made    metric.Registration
}

// Unregister ends the observation. Doing so again does nothing.
func (r *registration) Unregister() error {
	h := r.handler
	h.mu.Lock()
	mine := h.observed == r
	if mine {
		h.observed = nil
	}
	h.mu.Unlock()
	if !mine {
		return nil
	}
	return r.made.Unregister()
}
