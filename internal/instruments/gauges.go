package instruments

import (
	"strings"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Sample is the value of an UpDownCounter or a Gauge at one moment.
type Sample struct {
	ID
	Labels
	Value float64
}

// Labels are the attributes of a Sample. Those that the instrument does not have are empty.
type Labels struct {
	Key
	Pool              string
	Class             string
	Dimension, Source string
	Period            string
	Cause             string
}

// Holds says under which names the series of models and pools are, as Table.Holds does.
type Holds struct {
	Model func(Key) Key
	Pool  func(string) string
}

// Gauges calls yield with the samples of a limiter, model by model and then pool by pool, until it
// returns false. Each of them is read at one moment, by Explain and ExplainPool. Of models under
// Other the queued requests and active leases are added up, and no quota is told; of pools under
// OtherName nothing is. The Sample belongs to Gauges again when yield returns.
func Gauges(rl *ratelimit.RateLimiter, holds Holds, yield func(*Sample) bool) {
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
		key := KeyOf(e.Counted, e.Provider)
		if g.s.Labels = (Labels{Key: holds.Model(key)}); g.s.Key == Other {
			other, queued, active = true, queued+e.Waiting, active+e.InFlight
			continue
		}
		if g.model(&e); g.done {
			return
		}
	}
	if other {
		g.s.Labels = Labels{Key: Other}
		g.tell(QueuedRequests, float64(queued))
		g.tell(ActiveLeases, float64(active))
	}
	g.pools(rl, holds.Pool)
	g.s.Labels = Labels{}
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
	g.queued(e)
	g.tell(ActiveLeases, float64(e.InFlight))
	g.use(&ofModels, e.Limits, e.Found, e.Budgets)
	if rest := e.CooldownUntil.Sub(e.At); rest > 0 && !e.CooldownUntil.IsZero() {
		g.s.Cause = string(e.Cause)
		g.tell(ProviderPause, rest.Seconds())
		g.s.Cause = ""
	}
	if !e.ProfileReadOn.IsZero() {
		g.tell(ProfileAge, max(e.At.Sub(e.ProfileReadOn), 0).Seconds())
	}
}

// queued tells the waiters by class. Those of no class are told also where there are none: else the
// metric would be missing where nobody waits.
func (g *gauges) queued(e *ratelimit.Explanation) {
	rest := e.Waiting
	for class, n := range e.WaitingByClass {
		if class != "" {
			g.s.Class = short(class)
			g.tell(QueuedRequests, float64(n))
			rest -= n
		}
	}
	g.s.Class = ""
	g.tell(QueuedRequests, float64(rest))
}

func (g *gauges) pools(rl *ratelimit.RateLimiter, holds func(string) string) {
	for name := range rl.Pools() {
		if g.s.Labels = (Labels{Pool: holds(short(name))}); g.s.Pool == OtherName {
			continue
		}
		if is, ok := rl.ExplainPool(name); ok { // it may be gone
			g.tell(PoolQueuedRequests, float64(is.Waiting))
			g.tell(PoolActiveLeases, float64(is.InFlight))
			g.use(&ofPools, is.Limits, is.Found, is.Budgets)
		}
		if g.done {
			return
		}
	}
}

// uses are the instruments that tell what is used of limits.
type uses struct{ limit, used, external, utilization, found, budget, spent ID }

var (
	ofModels = uses{QuotaLimit, QuotaUsed, QuotaExternal, QuotaUtilization, QuotaFound, BudgetLimit, BudgetSpent}
	ofPools  = uses{
		PoolQuotaLimit, PoolQuotaUsed, PoolQuotaExternal, PoolQuotaUtilization, PoolQuotaFound, PoolBudgetLimit, PoolBudgetSpent,
	}
)

// use tells what is used of limits.
func (g *gauges) use(of *uses, limits []ratelimit.LimitState, found *ratelimit.FoundLimits, budgets []ratelimit.BudgetState) {
	for i := range limits {
		l := &limits[i]
		g.s.Dimension, g.s.Source = strings.TrimPrefix(l.Limit, "max_"), l.Origin
		g.tell(of.limit, float64(l.Max))
		g.tell(of.used, float64(l.Used))
		if l.External > 0 {
			g.tell(of.external, float64(l.External))
		}
		if l.Max > 0 {
			g.tell(of.utilization, (float64(l.Used)+float64(l.External))/float64(l.Max))
		}
	}
	g.s.Source = ""
	if found != nil {
		g.found(of.found, "rpm", found.RPM)
		g.found(of.found, "in_flight", found.InFlight)
	}
	g.s.Dimension = ""
	for i := range budgets {
		b := &budgets[i]
		g.s.Period = strings.TrimPrefix(b.Limit, "max_spend_per_")
		if b.Max > 0 {
			g.tell(of.budget, b.Max.Dollars())
		}
		g.tell(of.spent, b.Spent.Dollars())
	}
	g.s.Period = ""
}

// found tells a limit that was found; zero is none, as where the provider says its limits.
func (g *gauges) found(id ID, dimension string, limit int) {
	if limit > 0 {
		g.s.Dimension = dimension
		g.tell(id, float64(limit))
	}
}
