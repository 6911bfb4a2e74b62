package catalog

import (
	"maps"
	"slices"
)

// Every is the name of the quota for models that have none of their own.
const Every = "*"

// Names says under which name a model is counted. It never changes. The zero value counts each
// model under its own name. Names are safe for concurrent use, if the functions that they are
// given are.
type Names struct {
	Aliases       map[string]string // the names of quotas, by model
	MatchVersions bool              // versions of a model count to its quota
}

// Counted returns the name under which a model is counted. hasQuota reports whether there is a
// quota of a name.
func (n *Names) Counted(model string, hasQuota func(name string) bool) string {
	if n.MatchVersions {
		model, _ = n.Match(model, hasQuota)
	} else if alias, ok := n.Aliases[model]; ok {
		model = alias
	}
	return model
}

// Aliased returns what a name stands for as an alias, or the name itself.
func (n *Names) Aliased(name string) string {
	if alias, ok := n.Aliases[name]; ok {
		return alias
	}
	return name
}

// Aliased returns values by what their names stand for as aliases. Of several with one name, that
// of the name itself counts, else that of the first alias in the order of the alphabet.
func Aliased[V any](n *Names, values map[string]V) map[string]V {
	if len(n.Aliases) == 0 {
		return values
	}
	aliased := make(map[string]V, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		is := n.Aliased(name)
		if _, taken := aliased[is]; !taken {
			aliased[is] = values[name]
		}
	}
	for name, v := range values {
		if n.Aliased(name) == name {
			aliased[name] = v
		}
	}
	return aliased
}

// Match returns the alias or the name of a quota that a model stands for, versions included, and
// the model itself where there is none. hasQuota is as for Counted.
func (n *Names) Match(model string, hasQuota func(name string) bool) (name string, ok bool) {
	exists := hasQuota
	if len(n.Aliases) > 0 {
		exists = func(name string) bool {
			_, ok := n.Aliases[name]
			return ok || hasQuota(name)
		}
	}
	if name, ok = Match(model, exists); !ok {
		return model, false
	}
	alias, ok := n.Aliases[name]
	if !ok {
		return name, true
	}
	// An alias does not stand for another one.
	if name, ok = Match(alias, hasQuota); !ok {
		return alias, true
	}
	return name, true
}
