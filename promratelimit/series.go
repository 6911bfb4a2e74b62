package promratelimit

import (
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of one model. To find a metric by its labels takes longer than to change
// it, so those that every call changes are kept here.
type series struct {
	model, provider string // as labels

	once      sync.Once
	admitted  prometheus.Counter // without a wait
	inQueue   prometheus.Observer
	lease     prometheus.Observer
	ratio     prometheus.Observer
	reserved  tokens
	settled   tokens
	giveBacks tokens
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
	return &series{model: labelValue(k.Model), provider: labelValue(string(k.Provider))}
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
		s.admitted = h.requests.WithLabelValues(s.model, s.provider, allowed, instruments.Admitted)
		s.inQueue = h.inQueue.WithLabelValues(s.model, s.provider, instruments.Admitted)
		s.lease = h.lease.WithLabelValues(s.model, s.provider)
		s.ratio = h.ratio.WithLabelValues(s.model, s.provider)
		h.rejections.WithLabelValues(s.model, s.provider, "429", "rate_limited")
	})
	return s
}
