package otelratelimit

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// scope is the name of the meter and the tracer.
const scope = "dappco.re/go/core/go-ratelimit/otelratelimit"

// maxStores bounds the attribute sets of stores. A limiter has one store, with two operations.
const maxStores = 32

// Handler turns the events of a limiter into metrics and spans: set it as Config.Events. Observe
// adds the metrics that are read from the limiter. Make one with NewHandler; the zero value is of
// no use. It is safe for concurrent use.
type Handler struct {
	config *config
	tracer trace.Tracer
	meter  metric.Meter

	requests   metric.Int64Counter
	rejections metric.Int64Counter
	inQueue    metric.Float64Histogram
	lease      metric.Float64Histogram
	ratio      metric.Float64Histogram
	writes     metric.Float64Histogram
	tokens     metric.Int64ObservableCounter
	spend      metric.Float64Counter
	denials    metric.Int64Counter
	genAI      *genAI // nil without WithGenAIMetrics

	// Of the instruments that are read from a limiter each is in one of these.
	whole  [instruments.Count]metric.Int64Observable
	broken [instruments.Count]metric.Float64Observable

	series *instruments.Table[instruments.Key, *series]
	pools  *instruments.Table[string, *attributes]
	stores *instruments.Table[point, *options]
	alone  *options // the attributes of the program

	mu       sync.Mutex
	counting metric.Registration // of tokens; nil after Close
	observed *registration       // the limiter that is observed; nil for none
}

// NewHandler returns a Handler whose metrics and spans go to the global providers, or to those of
// the options. It fails if the meter cannot make an instrument. Call Close when a program that runs
// on needs the Handler no more.
func NewHandler(opts ...Option) (*Handler, error) {
	c := newConfig(opts)
	h := &Handler{config: c, tracer: c.tracers.Tracer(scope), meter: c.meters.Meter(scope)}
	m := &maker{Meter: h.meter}
	list := &instruments.List
	h.requests, h.rejections = m.counter(list[instruments.Requests]), m.counter(list[instruments.ProviderRejections])
	h.denials = m.counter(list[instruments.PoolDenials])
	h.inQueue, h.lease = m.histogram(list[instruments.TimeInQueue]), m.histogram(list[instruments.LeaseDuration])
	h.ratio, h.writes = m.histogram(list[instruments.EstimateRatio]), m.histogram(list[instruments.StoreDuration])
	h.tokens, h.spend = m.sum(list[instruments.Tokens]), m.amounts(list[instruments.Spend])
	for id, i := range list {
		if i.Kind == instruments.UpDownCounter || i.Kind == instruments.Gauge {
			h.whole[id], h.broken[id] = m.observable(i)
		}
	}
	if c.genAI {
		h.genAI = newGenAI(m)
	}
	if err := m.err(); err != nil {
		return nil, fmt.Errorf("new handler: %w", err)
	}
	h.series = instruments.NewTable(c.maxModels, instruments.Other, c.newSeries)
	h.pools = instruments.NewTable(instruments.MaxPools, instruments.OtherName, c.newPool)
	h.stores = instruments.NewTable(maxStores, point{ID: instruments.StoreDuration}, func(p point) *options {
		return newOptions(c.attributesWith(p.attributes()...)...)
	})
	h.alone = newOptions(c.attributes...)
	var err error
	if h.counting, err = h.meter.RegisterCallback(h.observeTokens, h.tokens); err != nil {
		return nil, fmt.Errorf("new handler: %w", err)
	}
	return h, nil
}

// HandleEvent records the measurements of an event, with its context, so that they can be
// exemplars of its span. A call that waited in line gets a span "ratelimit.wait".
func (h *Handler) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	var m instruments.Measurements
	instruments.Read(e, &m)
	if m.Written {
		h.writes.Record(ctx, m.Took, h.stores.Of(point{ID: instruments.StoreDuration, a: m.System, b: m.Operation}).record...)
		return
	}
	if m == (instruments.Measurements{}) {
		return
	}
	k := instruments.KeyOf(e.Model, e.Provider)
	if instruments.IsStray(e) {
		k = h.series.Seen(k)
	}
	s := h.series.Of(k)
	of := s.of(m.Class)
	if m.Request {
		h.requests.Add(ctx, 1, of.points.Of(point{ID: instruments.Requests, a: m.Code, b: m.Result}).add...)
		s.addTokens(0, m.Reserved)
	}
	if m.Pool != "" {
		h.denials.Add(ctx, 1, h.pools.Of(m.Pool).points.Of(point{ID: instruments.Requests, a: m.Code, b: m.Result}).add...)
	}
	if m.Queued {
		h.inQueue.Record(ctx, m.InQueue, of.points.Of(point{ID: instruments.TimeInQueue, a: m.Result}).record...)
		h.span(ctx, e, &m)
	}
	if m.Ended {
		h.lease.Record(ctx, m.Lease, s.alone.record...)
	}
	if m.Compared {
		h.ratio.Record(ctx, m.Ratio, s.alone.record...)
	}
	s.addTokens(1, m.Settled)
	s.addTokens(2, m.Returned)
	if m.Spent > 0 {
		h.spend.Add(ctx, m.Spent, of.alone.add...)
	}
	if m.Rejected {
		h.rejections.Add(ctx, 1, s.points.Of(point{ID: instruments.ProviderRejections, n: m.Status, a: m.ErrorType}).add...)
	}
	if s.genAI != nil {
		h.genAI.tell(ctx, s.genAI, e, &m)
	}
}

// observeTokens is the callback of ratelimit.tokens, which is counted in memory: seven additions a
// call cost more than all else.
func (h *Handler) observeTokens(_ context.Context, o metric.Observer) error {
	for _, s := range h.series.All() {
		for k, kind := range tokenKinds {
			for t, of := range tokenTypes {
				c := &s.tokens[k][t]
				n := c.load()
				if n == 0 {
					continue
				}
				with := c.with.Load()
				if with == nil {
					with = s.points.Of(point{ID: instruments.Tokens, a: kind, b: of})
					c.with.Store(with)
				}
				o.ObserveInt64(h.tokens, n, with.observe...)
			}
		}
	}
	return nil
}
