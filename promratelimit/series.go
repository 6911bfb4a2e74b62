package promratelimit

import (
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of one model. To find a metric by its labels takes longer than to change
// it, so those that every call changes are kept here.
type series struct {
	model, provider string // as labels

	once      sync.Once
	classless ofClass
	lease     prometheus.Observer
	ratio     prometheus.Observer
	reserved  tokens
	settled   tokens
	giveBacks tokens

	classes *instruments.Table[string, *ofClass]
}

// ofClass are the metrics of the calls of one class.
type ofClass struct {
	class    string // as a label
	once     sync.Once
	admitted prometheus.Counter // without a wait
	inQueue  prometheus.Observer
	other    atomic.Pointer[outcome] // the first outcome but that, which mostly is the usual one
}

// outcome is the counter of the requests with a code and a result.
type outcome struct {
	code, result string
	requests     prometheus.Counter
}

// tokens counts tokens of one kind.
type tokens struct{ input, output prometheus.Counter }

func (t *tokens) add(input, output int) {
	if input > 0 {
		t.input.Add(float64(input))
	}
	if output > 0 {
		t.output.Add(float64(output))
	}
}

func newSeries(k instruments.Key) *series {
	return &series{
		model: instruments.Name(k.Model), provider: instruments.Name(string(k.Provider)),
		classes: instruments.NewTable(instruments.MaxClasses, instruments.OtherName, func(class string) *ofClass {
			return &ofClass{class: instruments.Name(class)}
		}),
	}
}

// series returns the metrics of a model. They exist from its first event on, at zero, because a
// rate needs a zero to begin with; so does the one of refusals for which the limiter is to blame.
func (h *Handler) series(k instruments.Key) *series {
	s := h.table.Of(k)
	s.once.Do(func() {
		kind := func(name string) tokens {
			return tokens{
				h.tokens.WithLabelValues(s.model, s.provider, name, instruments.Input),
				h.tokens.WithLabelValues(s.model, s.provider, name, instruments.Output),
			}
		}
		s.reserved, s.settled, s.giveBacks = kind(instruments.Reserved), kind(instruments.Settled), kind(instruments.Returned)
		s.classless.begin(h, s)
		s.lease = h.lease.WithLabelValues(s.model, s.provider)
		s.ratio = h.ratio.WithLabelValues(s.model, s.provider)
		h.rejections.WithLabelValues(s.model, s.provider, "429", "rate_limited")
	})
	return s
}

// of returns the metrics of the calls of a class.
func (s *series) of(h *Handler, class string) *ofClass {
	if class == "" {
		return &s.classless
	}
	c := s.classes.Of(class)
	c.once.Do(func() { c.begin(h, s) })
	return c
}

// requests returns the counter of the requests with a code and a result.
func (c *ofClass) requests(h *Handler, s *series, code, result string) prometheus.Counter {
	if code == allowed && result == instruments.Admitted {
		return c.admitted
	}
	if o := c.other.Load(); o != nil && o.code == code && o.result == result {
		return o.requests
	}
	counter := h.requests.WithLabelValues(s.model, s.provider, code, result, c.class)
	if c.other.Load() == nil {
		c.other.CompareAndSwap(nil, &outcome{code, result, counter})
	}
	return counter
}

// begin makes the metrics.
func (c *ofClass) begin(h *Handler, s *series) {
	c.admitted = h.requests.WithLabelValues(s.model, s.provider, allowed, instruments.Admitted, c.class)
	c.inQueue = h.inQueue.WithLabelValues(s.model, s.provider, instruments.Admitted, c.class)
}

// begin makes the counters of refusals and of spend, also those of classes that the model has had
// calls of.
func (h *Handler) begin(b *instruments.Beginning) {
	if b.Pool != "" {
		pool := h.pools.Of(b.Pool)
		for _, code := range b.Codes {
			h.denials.WithLabelValues(pool, code, instruments.Refused)
		}
		return
	}
	s := h.table.Of(b.Key)
	class := func(class string) {
		for _, code := range b.Codes {
			h.requests.WithLabelValues(s.model, s.provider, code, instruments.Refused, class)
		}
		if b.Priced {
			h.spend.WithLabelValues(s.model, s.provider, class)
		}
	}
	class("")
	for name, c := range s.classes.All() {
		if name != instruments.OtherName {
			class(c.class)
		}
	}
}
