package catalog

import "slices"

// members are the members of a pool: names of models, and patterns. They never change, and are safe
// for concurrent use. Nil has none.
type members struct {
	given    []string
	names    map[string]bool
	patterns []string
	every    bool // all models are in the pool
}

// newMembers returns the members that the names and patterns say. It keeps a copy.
func newMembers(models []string) *members {
	m := &members{given: slices.Clone(models), names: make(map[string]bool, len(models))}
	for _, name := range models {
		switch {
		case name == Every:
			m.every = true
		case IsPattern(name):
			m.patterns = append(m.patterns, name)
		default:
			m.names[name] = true
		}
	}
	return m
}

// Given returns a copy of the names and patterns, as they were given.
func (m *members) Given() []string {
	if m == nil {
		return nil
	}
	return slices.Clone(m.given)
}

// Has reports whether a model of a name is in the pool.
func (m *members) Has(name string) bool { return m != nil && (m.every || m.Names(name)) }

// Names is Has without "*", which names no model in particular.
func (m *members) Names(name string) bool {
	if m == nil {
		return false
	}
	return m.names[name] || slices.ContainsFunc(m.patterns, func(pattern string) bool { return Covers(pattern, name) })
}
