package profile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
)

// Set is all profiles. It never changes, and is safe for concurrent use.
type Set struct{ byName map[string]*Provider }

// Names returns the names of the providers, in order.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// Provider returns a provider by its name, nil if there is none. It must not be changed.
func (s *Set) Provider(name string) *Provider { return s.byName[name] }

// ErrUnknown is what an error wraps for a provider that has no profile, such as a misspelt one.
var ErrUnknown = errors.New("unknown provider")

// Known is Provider, with an error that names those that have a profile.
func (s *Set) Known(name string) (*Provider, error) {
	if p := s.byName[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w %q: known are %s", ErrUnknown, name, strings.Join(s.Names(), ", "))
}

// Chosen is what a provider allows at one of its tiers.
type Chosen struct {
	*Provider
	Tier string          // the name of the tier; "" for a provider without any
	Rows map[string]*Row // of each model and pattern
}

// At returns what a provider allows at a tier, in any spelling that FindTier takes. The tier "" is
// the lowest paid one, as in Lowest.
func (s *Set) At(provider, tier string) (Chosen, error) {
	p, err := s.Known(provider)
	if err != nil {
		return Chosen{}, err
	}
	if tier == "" {
		return Chosen{p, p.LowestPaid(), p.Lowest()}, nil
	}
	found, ok := p.FindTier(tier)
	switch names := p.TierNames(); {
	case ok:
		return Chosen{p, found.Name, p.Models(found.Name)}, nil
	case len(names) == 0:
		return Chosen{}, fmt.Errorf("provider %q has no tier %q: no tier of it is known", provider, tier)
	default:
		return Chosen{}, fmt.Errorf("provider %q has no tier %q: its tiers are %s", provider, tier, strings.Join(names, ", "))
	}
}

// Choose returns the built-in profile that a limiter takes of a provider: that of the tier which
// tiers name, else the default one.
func Choose[P ~string](provider P, tiers map[P]string) (Chosen, error) {
	tier, named := tiers[provider]
	if !named {
		p, err := Builtin().Known(string(provider))
		if err != nil {
			return Chosen{}, err
		}
		return Chosen{p, p.LowestPaid(), p.Defaults()}, nil
	}
	is, err := Builtin().At(string(provider), tier)
	if err != nil {
		return Chosen{}, fmt.Errorf("profile: %w", err)
	}
	return is, nil
}

// ChooseAll is Choose for several providers. Tiers may name no others.
func ChooseAll[P ~string](providers []P, tiers map[P]string) (all []Chosen, err error) {
	for provider := range tiers {
		if _, err := Builtin().Known(string(provider)); err != nil {
			return nil, fmt.Errorf("%s: %w", "Tiers", err)
		}
		if !slices.Contains(providers, provider) {
			return nil, fmt.Errorf("%s names the provider %q, which is not in Providers", "Tiers", provider)
		}
	}
	for _, provider := range providers {
		is, err := Choose(provider, tiers)
		if err != nil {
			return nil, err
		}
		all = append(all, is)
	}
	return all, nil
}

// TierNames returns the names of the tiers, the lowest first. Those that the provider no longer
// uses follow in the same order.
func (p *Provider) TierNames() []string {
	names := make([]string, len(p.Tiers))
	for i, tier := range p.Tiers {
		names[i] = tier.Name
	}
	return names
}

// FindTier returns the tier that name stands for, in any case and also after "tier".
func (p *Provider) FindTier(name string) (Tier, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	if tier, ok := p.tier(name); ok {
		return tier, true
	}
	return p.tier(strings.TrimSpace(strings.TrimPrefix(name, "tier")))
}

func (p *Provider) tier(name string) (Tier, bool) {
	i := slices.IndexFunc(p.Tiers, func(t Tier) bool { return t.Name == name })
	if i < 0 {
		return Tier{}, false
	}
	return p.Tiers[i], true
}

// LowestPaid returns the name of the lowest paid tier, "" if none is known.
func (p *Provider) LowestPaid() string { return p.lowestPaid(false) }

func (p *Provider) lowestPaid(earlier bool) string {
	for _, tier := range p.Tiers {
		if tier.Paid && tier.Earlier == earlier {
			return tier.Name
		}
	}
	return ""
}

// Models returns the row of each model and pattern at a tier, which is one of TierNames.
func (p *Provider) Models(tier string) map[string]*Row {
	models := make(map[string]*Row)
	p.add(models, func(r *Row) bool { return r.At(tier) })
	return models
}

// Lowest returns the row of each model and pattern at the lowest paid tier. A model that has a
// row at the tiers of earlier names only has that of the lowest paid one of them.
func (p *Provider) Lowest() map[string]*Row {
	models := make(map[string]*Row)
	p.addLowest(models)
	return models
}

func (p *Provider) addLowest(models map[string]*Row) {
	for _, tier := range []string{p.LowestPaid(), p.lowestPaid(true)} {
		p.add(models, func(r *Row) bool { return r.At(tier) })
	}
}

// Defaults returns the rows of DefaultProfiles: those of the source document and Lowest.
func (p *Provider) Defaults() map[string]*Row {
	models := make(map[string]*Row)
	p.add(models, func(r *Row) bool { return r.Confidence == SourceDocument })
	p.addLowest(models)
	return models
}

// add adds the rows that match to models, except for models that have one.
func (p *Provider) add(models map[string]*Row, match func(*Row) bool) {
	for i := range p.Rows {
		r := &p.Rows[i]
		if !match(r) {
			continue
		}
		for _, name := range r.Models {
			if models[name] == nil {
				models[name] = r
			}
		}
	}
}

// PoolsAt returns the rows of the pools at a tier, by the names that pools of the provider have.
func (p *Provider) PoolsAt(tier string) map[string]*Row {
	pools := make(map[string]*Row)
	for i := range p.Pools {
		if r := &p.Pools[i]; r.At(tier) {
			pools[p.Name+"/"+r.Group] = r
		}
	}
	return pools
}

// CountingOf returns how the provider counts what r allows: r's own rules, or else the provider's.
func (p *Provider) CountingOf(r *Row) []Rule {
	if len(r.Counting) > 0 {
		return r.Counting
	}
	return p.Counting
}

// Source says where and when a row was read, for the quota of a model at a tier.
type Source struct {
	Tier       string // the one that the row names, where it is of another
	Group, URL string
	ReadOn     time.Time // midnight UTC
	Counting   []string
	Confidence string
}

// SourceOf returns the source of a row as a profile at a tier has it.
func (p *Provider) SourceOf(r *Row, tier string) Source {
	if !r.At(tier) {
		tier = r.FirstTier()
	}
	return Source{tier, r.Group, r.Source, r.ReadOn.Time(), Words(p.CountingOf(r)), string(r.Confidence)}
}

// Words returns rules as a profile has them.
func Words(rules []Rule) []string {
	words := make([]string, len(rules))
	for i, rule := range rules {
		words[i] = string(rule)
	}
	return words
}

// has reports whether no current figure is known of a model: by its name, by one that it is a
// version of, or by a pattern other than "*".
func (n *NoFigure) has(model string) bool {
	_, ok := catalog.Match(model, func(name string) bool {
		return slices.ContainsFunc(n.Models, func(pattern string) bool { return pattern != "*" && catalog.Covers(pattern, name) })
	})
	return ok
}
