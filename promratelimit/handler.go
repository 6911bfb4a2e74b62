package promratelimit

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
	"weak"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/client_golang/prometheus"
)

const allowed = string(ratelimit.DecisionAllowed)

// HandlerOptions are the options of [NewHandler]. The zero value is ready to use.
type HandlerOptions struct {
	// ConstLabels are added to every metric. Limiters that share a registry, each with a handler
	// of its own, need labels that tell them apart, such as limiter="chat". The dashboard and the
	// alerts know the name limiter. With a name that a metric has itself, Register returns an
	// error.
	ConstLabels prometheus.Labels
	// MaxModels bounds the models that have metrics of their own, because names of models may come
	// from callers. All further models are counted as "_other". Zero means 1,000. Negative counts
	// all models as "_other". A model takes 12 to 30 KB, most of it for native histograms.
	MaxModels int
	// Exemplar returns the labels of an exemplar for the histograms, such as the trace_id of the
	// span in ctx; none for a context that is not sampled. It must be fast, and safe for concurrent
	// use. Labels that Prometheus does not take, with more than 128 characters in all for one, are
	// left out. Nil is for no exemplars.
	//
	// ctx is that of the event: see [ratelimit.EventHandler].
	Exemplar func(ctx context.Context) prometheus.Labels
}

// Handler counts the events of limiters for Prometheus. It is an event handler, to be set as
// Config.Events, and a collector, to be registered. Several limiters that share a Handler are
// counted together. Without exemplars an event allocates nothing once its model is known. Make a
// Handler with [NewHandler]; it is safe for concurrent use.
type Handler struct {
	constant prometheus.Labels
	exemplar func(context.Context) prometheus.Labels
	table    *instruments.Table[instruments.Key, *series]
	pools    *instruments.Table[string, string] // as labels

	requests, tokens, rejections *prometheus.CounterVec
	spend, denials               *prometheus.CounterVec
	inQueue, lease, ratio, store *prometheus.HistogramVec

	mu       sync.Mutex
	limiters []weak.Pointer[ratelimit.RateLimiter] // those of its collectors
}

var (
	_ ratelimit.EventHandler = (*Handler)(nil)
	_ prometheus.Collector   = (*Handler)(nil)
)

// NewHandler returns a Handler that has counted nothing yet.
func NewHandler(options HandlerOptions) *Handler {
	constant := options.ConstLabels
	return &Handler{
		constant: constant,
		exemplar: options.Exemplar,
		table:    instruments.NewTable(maxModels(options.MaxModels), instruments.Other, newSeries),
		pools:    instruments.NewTable(instruments.MaxPools, instruments.OtherName, instruments.Name),

		requests:   newCounter(instruments.Requests, constant),
		tokens:     newCounter(instruments.Tokens, constant),
		rejections: newCounter(instruments.ProviderRejections, constant),
		spend:      newCounter(instruments.Spend, constant),
		denials:    newCounter(instruments.PoolDenials, constant),
		inQueue:    newHistogram(instruments.TimeInQueue, constant),
		lease:      newHistogram(instruments.LeaseDuration, constant),
		ratio:      newHistogram(instruments.EstimateRatio, constant),
		store:      newHistogram(instruments.StoreDuration, constant),
	}
}

func (h *Handler) collectors() [9]prometheus.Collector {
	return [...]prometheus.Collector{
		h.requests, h.inQueue, h.lease, h.tokens, h.ratio, h.rejections, h.store, h.spend, h.denials,
	}
}

// Describe implements [prometheus.Collector].
func (h *Handler) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range h.collectors() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (h *Handler) Collect(ch chan<- prometheus.Metric) {
	holds := instruments.Holds{Model: h.table.Holds, Pool: h.pools.Holds}
	for _, limiter := range h.live() {
		instruments.Begin(limiter, holds, h.begin)
	}
	for _, c := range h.collectors() {
		c.Collect(ch)
	}
}

// know has the counters of a limiter begin at zero, as long as the program keeps the limiter. It is
// not enough for the collector to begin them: a registry collects both at the same time.
func (h *Handler) know(limiter *ratelimit.RateLimiter) {
	h.live()
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := weak.Make(limiter); !slices.Contains(h.limiters, w) {
		h.limiters = append(h.limiters, w)
	}
}

// live returns the limiters that there still are, and forgets the others.
func (h *Handler) live() (limiters []*ratelimit.RateLimiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limiters = slices.DeleteFunc(h.limiters, func(w weak.Pointer[ratelimit.RateLimiter]) bool {
		limiter := w.Value()
		if limiter != nil {
			limiters = append(limiters, limiter)
		}
		return limiter == nil
	})
	return limiters
}

// HandleEvent counts an event. It implements [ratelimit.EventHandler].
func (h *Handler) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	var m instruments.Measurements
	instruments.Read(e, &m)
	switch {
	case m.Written:
		h.store.WithLabelValues(instruments.Name(m.System), m.Operation).Observe(m.Took)
	case m.Request, m.Queued, m.Ended, m.Rejected, m.Spent > 0, m.Settled != ratelimit.Usage{}:
		k := instruments.KeyOf(e.Model, e.Provider)
		if instruments.IsStray(e) {
			k = h.table.Seen(k)
		}
		h.count(ctx, h.series(k), &m)
	}
}

func (h *Handler) count(ctx context.Context, s *series, m *instruments.Measurements) {
	if m.Request {
		s.of(h, m.Class).requests(h, s, m.Code, m.Result).Inc()
		if m.Pool != "" {
			h.denials.WithLabelValues(h.pools.Of(m.Pool), m.Code, m.Result).Inc()
		}
	}
	if m.Rejected {
		h.rejections.WithLabelValues(s.model, s.provider, statusLabel(m.Status), m.ErrorType).Inc()
	}
	s.reserved.add(m.Reserved.PromptTokens, m.Reserved.OutputTokens)
	s.settled.add(m.Settled.PromptTokens, m.Settled.OutputTokens)
	if m.Spent > 0 {
		h.spend.WithLabelValues(s.model, s.provider, s.of(h, m.Class).class).Add(m.Spent)
	}
	s.giveBacks.add(m.Returned.PromptTokens, m.Returned.OutputTokens)
	if !m.Queued && !m.Ended && !m.Compared {
		return
	}
	exemplar := h.exemplarOf(ctx)
	if m.Queued {
		c := s.of(h, m.Class)
		inQueue := c.inQueue
		if m.Result != instruments.Admitted {
			inQueue = h.inQueue.WithLabelValues(s.model, s.provider, m.Result, c.class)
		}
		observe(inQueue, m.InQueue, exemplar)
	}
	if m.Ended {
		observe(s.lease, m.Lease, exemplar)
	}
	if m.Compared {
		observe(s.ratio, m.Ratio, exemplar)
	}
}

func observe(to prometheus.Observer, value float64, exemplar prometheus.Labels) {
	if exemplar == nil {
		to.Observe(value)
		return
	}
	to.(prometheus.ExemplarObserver).ObserveWithExemplar(value, exemplar)
}

// exemplarOf returns the labels of an exemplar, nil for none. Labels that an observation would
// panic at are none.
func (h *Handler) exemplarOf(ctx context.Context) prometheus.Labels {
	if h.exemplar == nil {
		return nil
	}
	labels := h.exemplar(ctx)
	runes := 0
	for name, value := range labels {
		if name == "" || strings.HasPrefix(name, "__") || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil
		}
		runes += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
	}
	if runes == 0 || runes > prometheus.ExemplarMaxRunes {
		return nil
	}
	return labels
}

// statusLabel returns an HTTP status as a label, empty if it is not known.
func statusLabel(status int) string {
	if status == 0 {
		return ""
	}
	return strconv.Itoa(status)
}
