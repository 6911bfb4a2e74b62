package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/quotas"
)

// limits compares the limits of accounts with those in force.
func (e *examination) limits(ctx context.Context) {
	for _, provider := range slices.Sorted(maps.Keys(e.Sources)) {
		theirs, err := e.Sources[provider].Limits(ctx)
		if err != nil {
			e.find(checkLimits, provider, "look whether the key in the environment may read the limits", "they cannot be read: %v", err)
			continue
		}
		compared := 0
		if e.is != nil {
			for i := range e.is.Models {
				m := &e.is.Models[i]
				if of, has := accountsOf(theirs, provider, m.Model); has {
					compared++
					e.exceeds(provider, m, of)
				}
			}
		}
		e.note("%s: it has limits for %d models, of which %d are used here", provider, len(theirs), compared)
	}
}

// accountsOf returns what an account says of a model, which may be counted with its provider before
// it.
func accountsOf(theirs map[string]ratelimit.ModelQuota, provider, model string) (q ratelimit.ModelQuota, has bool) {
	name := strings.TrimPrefix(model, provider+"/")
	if q, has = theirs[name]; has {
		return q, true
	}
	for pattern, q := range theirs { // OpenRouter's free models are one
		if suffix, is := strings.CutPrefix(pattern, "*"); is && strings.HasSuffix(name, suffix) {
			return q, true
		}
	}
	return q, false
}

// exceeds looks for limits of a model that are above those of its account.
func (e *examination) exceeds(provider string, m *ratelimit.Explanation, theirs ratelimit.ModelQuota) {
	for _, l := range quotas.Limits {
		most := *l.Of(&theirs)
		if most == 0 {
			continue
		}
		set := fmt.Sprintf("ratelimit quota set %q --%s %d", m.Model, l.Flag, most)
		switch ours := inForce(m, l.Key); {
		case ours == 0:
			e.find(checkLimits, m.Model, set, "%s allows %d %s, and nothing limits them here", provider, most, l.Words)
		case ours > most:
			e.find(checkLimits, m.Model, set, "%s allows %d %s, and here are %d", provider, most, l.Words, ours)
		case ours < most:
			e.note("%s: %s allows %d %s, of which %d are used here", m.Model, provider, most, l.Words, ours)
		}
	}
}

// inForce returns a limit of a model: the lowest of its own and those of its pools; 0 for none.
func inForce(m *ratelimit.Explanation, key string) (lowest int) {
	all := m.Limits
	for i := range m.Pools {
		all = slices.Concat(all, m.Pools[i].Limits)
	}
	for _, l := range all {
		if l.Limit == key && (lowest == 0 || l.Max < lowest) {
			lowest = l.Max
		}
	}
	return lowest
}
