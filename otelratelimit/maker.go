package otelratelimit

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// maker makes instruments, and collects what keeps some from being made.
type maker struct {
	metric.Meter
	errs []error
}

func (m *maker) failed(name string, err error) {
	if err != nil {
		m.errs = append(m.errs, fmt.Errorf("instrument %s: %w", name, err))
	}
}

func (m *maker) err() error { return errors.Join(m.errs...) }

func (m *maker) counter(i instruments.Instrument) metric.Int64Counter {
	made, err := m.Int64Counter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.failed(i.Name, err)
	return made
}

func (m *maker) amounts(i instruments.Instrument) metric.Float64Counter {
	made, err := m.Float64Counter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.failed(i.Name, err)
	return made
}

func (m *maker) histogram(i instruments.Instrument) metric.Float64Histogram {
	made, err := m.Float64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description),
		metric.WithExplicitBucketBoundaries(i.Boundaries...))
	m.failed(i.Name, err)
	return made
}

func (m *maker) integers(i instruments.Instrument) metric.Int64Histogram {
	made, err := m.Int64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description),
		metric.WithExplicitBucketBoundaries(i.Boundaries...))
	m.failed(i.Name, err)
	return made
}

func (m *maker) sum(i instruments.Instrument) metric.Int64ObservableCounter {
	made, err := m.Int64ObservableCounter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.failed(i.Name, err)
	return made
}

// observable makes an instrument that is read from a limiter. One of the results is nil.
func (m *maker) observable(i instruments.Instrument) (whole metric.Int64Observable, broken metric.Float64Observable) {
	var err error
	unit, description := metric.WithUnit(i.Unit), metric.WithDescription(i.Description)
	switch {
	case i.Kind == instruments.UpDownCounter:
		whole, err = m.Int64ObservableUpDownCounter(i.Name, unit, description)
	case i.Integer:
		whole, err = m.Int64ObservableGauge(i.Name, unit, description)
	default:
		broken, err = m.Float64ObservableGauge(i.Name, unit, description)
	}
	m.failed(i.Name, err)
	return whole, broken
}
