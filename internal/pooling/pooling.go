// Package pooling says which models are in a pool, a limit that several models share.
package pooling

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
)

// Members are the members of a pool: names of models, and patterns. They never change, and are safe
// for concurrent use. Nil has none.
type Members struct {
	given    []string
	names    map[string]bool
	patterns []string
	every    bool // all models are in the pool
}

// New returns the members that the names and patterns say. It keeps a copy.
func New(models []string) *Members {
	m := &Members{given: slices.Clone(models), names: make(map[string]bool, len(models))}
	for _, name := range models {
		switch {
		case name == modelname.Every:
			m.every = true
		case modelname.IsPattern(name):
			m.patterns = append(m.patterns, name)
		default:
			m.names[name] = true
		}
	}
	return m
}

// Given returns a copy of the names and patterns, as they were given.
func (m *Members) Given() []string {
	if m == nil {
		return nil
	}
	return slices.Clone(m.given)
}

// Has reports whether a model of a name is in the pool.
func (m *Members) Has(name string) bool { return m != nil && (m.every || m.Names(name)) }

// Names is Has without "*", which names no model in particular.
func (m *Members) Names(name string) bool {
	if m == nil {
		return false
	}
	return m.names[name] || slices.ContainsFunc(m.patterns, func(pattern string) bool { return modelname.Covers(pattern, name) })
}
