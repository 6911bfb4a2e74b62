package promratelimit

import (
	"cmp"
	"slices"
	"strings"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// CollectorOptions are the options of [NewCollector]. The zero value is ready to use.
type CollectorOptions struct {
	// Handler is the handler of the limiter's events, if it has one. The collector has its
	// ConstLabels, and the same models have metrics of their own; ConstLabels and MaxModels are
	// not used then.
	Handler *Handler
	// ConstLabels are added to every metric: see [HandlerOptions.ConstLabels].
	ConstLabels prometheus.Labels
	// MaxModels bounds the models that have metrics of their own, as that of [HandlerOptions] does.
	// Of the others the sums of the queued requests and of the active leases are told, as "_other".
	MaxModels int
}

// NewCollector returns a collector that reads limiter at each scrape: the quotas and their use,
// the lines, the open reservations, the cooldowns and the store. What it tells of a model is of
// one moment, and equals what Stats and Explain return then. It holds the limiter for the time of
// one Explain at a time. With Config.Shared and Config.Store it tells of all processes.
//
// The collector is safe for concurrent use. A limiter that is closed may still be scraped.
func NewCollector(limiter *ratelimit.RateLimiter, options CollectorOptions) prometheus.Collector {
	if limiter == nil {
		panic("promratelimit: the limiter of the collector is nil")
	}
	c := &collector{limiter: limiter}
	constant := options.ConstLabels
	if h := options.Handler; h != nil {
		h.know(limiter)
		constant, c.holds = h.constant, instruments.Holds{Model: h.table.Holds, Pool: h.pools.Holds}
	} else {
		none := func(instruments.Key) struct{} { return struct{}{} }
		noPool := func(string) struct{} { return struct{}{} }
		c.holds = instruments.Holds{
			Model: instruments.NewTable(maxModels(options.MaxModels), instruments.Other, none).Holds,
			Pool:  instruments.NewTable(instruments.MaxPools, instruments.OtherName, noPool).Holds,
		}
	}
	for id := range instruments.List {
		if i := &instruments.List[id]; !byEvents(i) {
			c.descs[id] = prometheus.NewDesc(i.Prometheus, i.Description, labelsOf(i), constant)
			c.labels[id] = newLabelSet(i, constant)
		}
	}
	return c
}

type collector struct {
	limiter *ratelimit.RateLimiter
	holds   instruments.Holds
	descs   [instruments.Count]*prometheus.Desc // nil for those that are a Handler's
	labels  [instruments.Count]labelSet
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		if d != nil {
			ch <- d
		}
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := scrape{of: c}
	instruments.Gauges(c.limiter, c.holds, s.add)
	for i := range s.families {
		f := &s.families[i]
		slices.SortFunc(f.parts, func(a, b part) int { return strings.Compare(a.dimension, b.dimension) })
		for _, p := range f.parts {
			p.send(ch)
		}
	}
}

// scrape is what one scrape reads. A registry sorts the metrics of a family by the values of their
// labels in the order of the names, dimension before model; that is half of its work, and nearly
// none if they come in that order. The limiter is read model by model, so they are sorted out here.
type scrape struct {
	of       *collector
	families [instruments.Count]family

	last   instruments.Sample // the labels are those of this one
	labels []*dto.LabelPair
}

type family struct{ parts []part }

// part are the metrics of a family with the same dimension, or the same class.
type part struct {
	dimension string
	gauges    []gauge
}

func (s *scrape) add(sample *instruments.Sample) bool {
	if s.labels == nil || !s.sameLabels(sample) {
		s.last, s.labels = *sample, s.of.labels[sample.ID].pairs(sample)
	}
	p := s.families[sample.ID].part(cmp.Or(sample.Dimension, sample.Class)) // no family has both
	p.gauges = append(p.gauges, gauge{desc: s.of.descs[sample.ID], labels: s.labels, value: sample.Value})
	return true
}

// sameLabels reports whether a sample has the labels of the last one, by name and value.
func (s *scrape) sameLabels(sample *instruments.Sample) bool {
	return sample.Labels == s.last.Labels && s.of.labels[sample.ID].hasNames(s.of.labels[s.last.ID])
}

func (f *family) part(dimension string) *part {
	for i := range f.parts {
		if f.parts[i].dimension == dimension {
			return &f.parts[i]
		}
	}
	f.parts = append(f.parts, part{dimension: dimension})
	return &f.parts[len(f.parts)-1]
}

// send sends the metrics. Two with the same labels would fail the scrape: names may become one as
// labels, and a limiter may count several under one name.
func (p *part) send(ch chan<- prometheus.Metric) {
	if !slices.IsSortedFunc(p.gauges, compare) {
		slices.SortStableFunc(p.gauges, compare)
	}
	for i := range p.gauges {
		if i == 0 || compare(p.gauges[i-1], p.gauges[i]) != 0 {
			ch <- &p.gauges[i]
		}
	}
}

// gauge is a metric with labels that it shares with others.
type gauge struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

func (g *gauge) Desc() *prometheus.Desc { return g.desc }

func (g *gauge) Write(out *dto.Metric) error {
	out.Label, out.Gauge = g.labels, &dto.Gauge{Value: &g.value}
	return nil
}

func compare(a, b gauge) int {
	return slices.CompareFunc(a.labels, b.labels, func(a, b *dto.LabelPair) int {
		return strings.Compare(a.GetValue(), b.GetValue())
	})
}
