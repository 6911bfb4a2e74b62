package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// mostModels is how many models are told of in one check.
const mostModels = 20

// models looks for models that are called and not limited, and for those that nothing can call.
func (e *examination) models() {
	var loose []string
	for i := range e.is.Models {
		m := &e.is.Models[i]
		switch used := &m.Next.Stats; {
		case m.Next.Code == ratelimit.DecisionUnpriced:
			e.find(checkPrices, m.Model, "say its price under prices: in the file of --config",
				"its spend is limited, and it has no price: each call is refused")
		case m.Next.Code == ratelimit.DecisionInvalidQuota:
			e.find(checkModels, m.Model, "say another one: ratelimit quota set", "its quota cannot be: %s", m.Next.Reason)
		case !isLimited(m) && used.RPM+used.RPD+used.InFlight > 0:
			loose = append(loose, m.Model)
		}
	}
	for _, model := range loose[:min(len(loose), mostModels)] {
		e.find(checkModels, model, fmt.Sprintf("ratelimit quota set %q --rpm ... --tpm ..., or correct the name", model),
			"it is called, and no quota limits it")
	}
	if more := len(loose) - mostModels; more > 0 {
		e.find(checkModels, fmt.Sprintf("%d more", more), "ratelimit quota set '*' limits each model without a quota", "they are called, and no quota limits them")
	}
}

// isLimited reports whether anything limits a model.
func isLimited(m *ratelimit.Explanation) bool {
	limited := len(m.Limits) > 0 || m.Found != nil
	budgets := m.Budgets
	for i := range m.Pools {
		limited = limited || len(m.Pools[i].Limits) > 0 || m.Pools[i].Found != nil
		budgets = slices.Concat(budgets, m.Pools[i].Budgets)
	}
	return limited || slices.ContainsFunc(budgets, func(b ratelimit.BudgetState) bool { return b.Max > 0 })
}

// freshFor is how long a figure that was read at a provider is taken for right.
const freshFor = 90 * 24 * time.Hour

// profiles looks for limits that come from profiles of long ago, and tells of each provider. Those
// in force are the figures of this program where they are the same.
func (e *examination) profiles() {
	stale, eldest := make(map[ratelimit.Provider][]string), make(map[ratelimit.Provider]time.Time)
	for i := range e.is.Models {
		m := &e.is.Models[i]
		if !slices.ContainsFunc(m.Limits, func(l ratelimit.LimitState) bool { return l.Origin == "profile" }) {
			continue
		}
		from, known := sourceOf(m.Provider, m.Quota, e.is.Quotas[m.Quota])
		if !known || e.Now.Sub(from.ReadOn) <= freshFor {
			continue
		}
		stale[m.Provider] = append(stale[m.Provider], m.Model)
		if eldest[m.Provider].IsZero() || from.ReadOn.Before(eldest[m.Provider]) {
			eldest[m.Provider] = from.ReadOn
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(stale)) {
		e.find(checkProfiles, string(provider), "look up your account's limits, and say them: ratelimit quota set, or update this program",
			"the limits of %s are those of the profile that was read on %s, %d days ago",
			named(stale[provider]), eldest[provider].Format(time.DateOnly), days(e.Now.Sub(eldest[provider])))
	}
}

// named names some of several models.
func named(models []string) string {
	const most = 3
	text := strings.Join(models[:min(len(models), most)], ", ")
	if more := len(models) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// sourceOf returns where a quota of a profile was read; of several tiers with the same figures, the
// last one read.
func sourceOf(provider ratelimit.Provider, name string, quota ratelimit.ModelQuota) (from ratelimit.ProfileSource, known bool) {
	for _, tier := range append(ratelimit.Tiers(provider), "") {
		p, err := ratelimit.Profile(provider, tier)
		if q, has := p.Models[name]; err == nil && has && q == quota && p.Sources[name].ReadOn.After(from.ReadOn) {
			from, known = p.Sources[name], true
		}
	}
	return from, known
}
