package promratelimit

import (
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// labelSet makes the labels of a gauge's samples, with less than half of the allocations of
// prometheus.MakeLabelPairs, which take longer than all else that a scrape does with a sample.
type labelSet []label

// label is one label, in the order of the names.
type label struct {
	name  string
	value string // of a constant label
	of    func(*instruments.Sample) string
}

var labelValues = map[instruments.Attribute]func(*instruments.Sample) string{
	instruments.Model:     func(s *instruments.Sample) string { return instruments.Name(s.Model) },
	instruments.Provider:  func(s *instruments.Sample) string { return instruments.Name(string(s.Provider)) },
	instruments.Dimension: func(s *instruments.Sample) string { return s.Dimension },
	instruments.Source:    func(s *instruments.Sample) string { return s.Source },
	instruments.Cause:     func(s *instruments.Sample) string { return s.Cause },
	instruments.Class:     func(s *instruments.Sample) string { return instruments.Name(s.Class) },
	instruments.Pool:      func(s *instruments.Sample) string { return instruments.Name(s.Pool) },
	instruments.Period:    func(s *instruments.Sample) string { return s.Period },
}

func newLabelSet(i *instruments.Instrument, constant prometheus.Labels) (set labelSet) {
	for name, value := range constant {
		set = append(set, label{name: name, value: value})
	}
	for _, a := range attributesOf(i) {
		set = append(set, label{name: a.Label, of: labelValues[a]})
	}
	slices.SortFunc(set, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return set
}

// pair is a label of a sample with what it points to.
type pair struct {
	dto.LabelPair
	value string
}

// hasNames reports whether another set has the same names.
func (set labelSet) hasNames(other labelSet) bool {
	return slices.EqualFunc(set, other, func(a, b label) bool { return a.name == b.name })
}

// pairs returns the labels of a sample. Those who append to them get a copy.
func (set labelSet) pairs(sample *instruments.Sample) []*dto.LabelPair {
	pairs := make([]pair, len(set))
	all := make([]*dto.LabelPair, len(set))
	for i := range set {
		l, p := &set[i], &pairs[i]
		if p.value = l.value; l.of != nil {
			p.value = l.of(sample)
		}
		p.Name, p.Value = &l.name, &p.value
		all[i] = &p.LabelPair
	}
	return all
}
