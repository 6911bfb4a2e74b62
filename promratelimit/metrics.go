package promratelimit

import (
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/client_golang/prometheus"
)

// A native histogram has buckets that grow by a tenth, at most so many. When it needs more, it
// starts anew, but not more often than once an hour, else its buckets grow wider.
const (
	nativeFactor  = 1.1
	nativeBuckets = 100
	nativeReset   = time.Hour
)

// attributesOf returns the attributes of an instrument, and labelsOf their labels in Prometheus, in
// the order in which values are given.
func attributesOf(i *instruments.Instrument) []instruments.Attribute {
	if !i.PerModel {
		return i.Attributes
	}
	return append([]instruments.Attribute{instruments.Model, instruments.Provider}, i.Attributes...)
}

func labelsOf(i *instruments.Instrument) (labels []string) {
	for _, a := range attributesOf(i) {
		labels = append(labels, a.Label)
	}
	return labels
}

// byEvents reports whether an instrument belongs to the Handler, and not to the collector.
func byEvents(i *instruments.Instrument) bool {
	return i.Kind == instruments.Counter || i.Kind == instruments.Histogram
}

func newCounter(id instruments.ID, constant prometheus.Labels) *prometheus.CounterVec {
	i := &instruments.List[id]
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: i.Prometheus, Help: i.Description, ConstLabels: maps.Clone(constant),
	}, labelsOf(i))
}

func newHistogram(id instruments.ID, constant prometheus.Labels) *prometheus.HistogramVec {
	i := &instruments.List[id]
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: i.Prometheus, Help: i.Description, ConstLabels: maps.Clone(constant),
		Buckets:                         i.Boundaries,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: nativeReset,
	}, labelsOf(i))
}

// maxModels is what the option MaxModels stands for.
func maxModels(n int) int {
	if n == 0 {
		return instruments.MaxModels
	}
	return max(n, 0)
}
