package instruments

import (
	"strings"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Sample is the value of an UpDownCounter or a Gauge at one moment. Attributes that the instrument
// does not have are empty.
type Sample struct {
	ID
	Key
	Dimension, Source string
	Cause             string
	Value             float64
}

// Gauges calls yield with the samples of a limiter, model by model, until it returns false. Each
// model is read at one moment, by Explain. holds says under which key the series of a model are, as
// Table.Holds does. Of models under Other the queued requests and active leases are added up, and
// no quota is told. The Sample belongs to Gauges again when yield
// returns.
func Gauges(rl *ratelimit.RateLimiter, holds func(Key) Key, yield func(*Sample) bool) {
	var g gauges
	g.yield = yield
	other, queued, active := false, 0, 0
	told := make(map[string]bool) // several names may be counted as one model
	for model := range rl.Models() {
		e := rl.Explain(model)
		if told[e.Counted] {
			continue
		}
		told[e.Counted] = true
		key := Key{Model: e.Counted, Provider: e.Provider}
		if g.s = (Sample{Key: holds(key)}); g.s.Key == Other {
			other, queued, active = true, queued+e.Waiting, active+e.InFlight
			continue
		}
		if g.model(&e); g.done {
			return
		}
	}
	if other {
		g.s = Sample{Key: Other}
		g.tell(QueuedRequests, float64(queued))
		g.tell(ActiveLeases, float64(active))
	}
	g.s = Sample{}
	degraded := 0.0
	if rl.Err() != nil {
		degraded = 1
	}
	g.tell(StoreDegraded, degraded)
}

type gauges struct {
	yield func(*Sample) bool
	s     Sample
	done  bool
}

func (g *gauges) tell(id ID, value float64) {
	if !g.done {
		g.s.ID, g.s.Value = id, value
		g.done = !g.yield(&g.s)
	}
}

func (g *gauges) model(e *ratelimit.Explanation) {
	g.tell(QueuedRequests, float64(e.Waiting))
	g.tell(ActiveLeases, float64(e.InFlight))
	for i := range e.Limits {
		l := &e.Limits[i]
		g.s.Dimension, g.s.Source = strings.TrimPrefix(l.Limit, "max_"), l.Origin
		g.tell(QuotaLimit, float64(l.Max))
		g.tell(QuotaUsed, float64(l.Used))
		if l.External > 0 {
			g.tell(QuotaExternal, float64(l.External))
		}
		if l.Max > 0 {
			g.tell(QuotaUtilization, (float64(l.Used)+float64(l.External))/float64(l.Max))
		}
	}
	g.s.Source = ""
	if e.Found != nil {
		g.found("rpm", e.Found.RPM)
		g.found("in_flight", e.Found.InFlight)
	}
	g.s.Dimension = ""
	if rest := e.CooldownUntil.Sub(e.At); rest > 0 && !e.CooldownUntil.IsZero() {
		g.s.Cause = string(e.Cause)
		g.tell(ProviderPause, rest.Seconds())
		g.s.Cause = ""
	}
	if !e.ProfileReadOn.IsZero() {
		g.tell(ProfileAge, max(e.At.Sub(e.ProfileReadOn), 0).Seconds())
	}
}

// found tells a limit that was found; zero is none, as where the provider says its limits.
func (g *gauges) found(dimension string, limit int) {
	if limit > 0 {
		g.s.Dimension = dimension
		g.tell(QuotaFound, float64(limit))
	}
}
