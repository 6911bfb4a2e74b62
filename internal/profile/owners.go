package profile

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
)

// hosts serve models of others, often under the same names, so they own them last.
var hosts = []string{"azure", "bedrock", "openrouter", "vertex"}

// Owners tells which of the providers know a model, at any tier. It never changes, and is safe for
// concurrent use.
type Owners struct {
	exact    map[string][]string // each in the order of preference
	patterns []ownPatterns       // in that order
	named    map[string]bool     // by provider: whether its profile names any model
}

type ownPatterns struct {
	provider string
	index    *catalog.PatternIndex
}

// Owners returns the owners of all models.
func (s *Set) Owners() *Owners {
	o := &Owners{exact: make(map[string][]string), named: make(map[string]bool)}
	isHost := func(name string) bool { return slices.Contains(hosts, name) }
	order := slices.DeleteFunc(s.Names(), isHost)
	for _, name := range append(order, hosts...) {
		if p := s.Provider(name); p != nil {
			o.add(p)
		}
	}
	return o
}

func (o *Owners) add(p *Provider) {
	o.named[p.Name] = len(p.Rows) > 0
	var patterns []string
	for i := range p.Rows {
		for _, model := range p.Rows[i].Models {
			switch {
			case catalog.IsPattern(model):
				patterns = append(patterns, model)
			case !slices.Contains(o.exact[model], p.Name):
				o.exact[model] = append(o.exact[model], p.Name)
			}
		}
	}
	if index := catalog.NewPatternIndex(slices.Values(patterns)); index != nil {
		o.patterns = append(o.patterns, ownPatterns{p.Name, index})
	}
}

// First returns the first provider that knows a model by its name, else by a pattern; "" for none.
// Those that want refuses are passed over; a nil want refuses none.
func (o *Owners) First(model string, want func(provider string) bool) string {
	for _, p := range o.exact[model] {
		if want == nil || want(p) {
			return p
		}
	}
	for _, p := range o.patterns {
		if _, ok := p.index.Longest(model); ok && (want == nil || want(p.provider)) {
			return p.provider
		}
	}
	return ""
}

// Base returns the known name that a model is a version of; "" for none.
func (o *Owners) Base(model string) string {
	base, _ := catalog.Match(model, func(name string) bool { return o.exact[name] != nil })
	return base
}

// Names reports whether a provider has a profile, and whether that names any model.
func (o *Owners) Names(provider string) (names, known bool) {
	names, known = o.named[provider]
	return names, known
}
