package otelratelimit

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// Option is an option of NewHandler.
type Option func(*config)

type config struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	attributes []attribute.KeyValue
	maxModels  int
	genAI      bool
	operation  string
}

func newConfig(opts []Option) *config {
	c := &config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), maxModels: instruments.MaxModels}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	return c
}

// attributesWith returns the attributes of the program, and more.
func (c *config) attributesWith(more ...attribute.KeyValue) []attribute.KeyValue {
	return append(slices.Clone(c.attributes), more...)
}

// WithMeterProvider sets where the metrics go. The default, and what nil stands for, is the global
// provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if p != nil {
			c.meters = p
		}
	}
}

// WithTracerProvider sets where the spans go. The default, and what nil stands for, is the global
// provider. noop.NewTracerProvider turns spans off.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.tracers = p
		}
	}
}

// WithAttributes adds attributes to every metric and span, such as one that tells several limiters
// apart. Of two with one key the later counts; the Handler's own cannot be replaced. Each of their
// values makes series of its own, so give few, and no secrets.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(c *config) { c.attributes = append(c.attributes, attributes...) }
}

// WithMaxModels bounds the models that have series of their own; further ones are counted together
// as the model "_other". The default, and what zero stands for, is 1,000.
// A negative n counts all models as "_other".
func WithMaxModels(n int) Option {
	return func(c *config) {
		if c.maxModels = n; n == 0 {
			c.maxModels = instruments.MaxModels
		}
	}
}

// WithGenAIMetrics adds the client metrics of the GenAI semantic conventions, from the calls that
// Commit and RecordUsage settle. Leave it out if something else counts the calls already, as the
// instrumentation of an SDK does: they would be counted twice. The package's documentation lists
// them.
//
// operation is the gen_ai.operation.name of the calls, which the limiter does not know. The empty
// one stands for "chat".
func WithGenAIMetrics(operation string) Option {
	return func(c *config) {
		if c.genAI, c.operation = true, operation; operation == "" {
			c.operation = "chat"
		}
	}
}
