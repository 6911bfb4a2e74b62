package catalog

import (
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Bounds returns those limits of a model's quota that reports do not exceed.
func (p *sayings) Bounds(name string, is state.Quota) state.Quota {
	m := p.models[name]
	if m == nil || !m.has || m.is != is {
		return is // the program set it by hand
	}
	_, bounds, _ := m.base()
	return bounds
}

// Learn notes next, the quota that a provider's reports make of a model's present one. cover is
// "" if the model has a quota of its own, or if none covers it. Otherwise cover names the quota
// that covers the model, is is that quota, and bounds are its Bounds.
func (p *sayings) Learn(name string, next state.Quota, cover string, is, bounds state.Quota) {
	m := p.of(name)
	if cover != "" {
		p.copyOf(name, copied{cover, is, bounds})
	}
	base, bounds, _ := m.base()
	learned, _ := m.said.Get(state.Learned)
	was := corrected(base, learned, bounds)
	for of := range state.InFlight {
		switch limit := *next.Limit(of); limit {
		case *was.Limit(of):
		case *base.Limit(of):
			*learned.Limit(of) = 0
		default:
			*learned.Limit(of) = limit
		}
	}
	m.unsay(state.Learned)
	if learned != (state.Quota{}) {
		m.say().Set(state.Learned, learned)
	}
}

// copyOf notes that a model has a corrected copy of another quota.
func (p *sayings) copyOf(name string, c copied) {
	p.of(name).copied = &c
	if p.copies == nil {
		p.copies = make(map[string]map[string]bool)
	}
	if p.copies[c.of] == nil {
		p.copies[c.of] = make(map[string]bool)
	}
	p.copies[c.of][name] = true
}

// Forget forgets what was learned of a model, and reports whether there was anything.
func (p *sayings) Forget(name string) (had bool) {
	m := p.models[name]
	if m == nil || !m.said.Has(state.Learned) && m.copy().of == "" {
		return false
	}
	p.dropCopy(name)
	m.unsay(state.Learned)
	return true
}

// Learned returns the models of which something was learned, sorted.
func (p *sayings) Learned() (names []string) {
	for name, m := range p.models {
		if m.said.Has(state.Learned) || m.copy().of != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// dropCopy makes a model's corrected copy of another quota one that was learned of the model
// alone. What is to be said of it follows.
func (p *sayings) dropCopy(name string) {
	m := p.models[name]
	if m == nil || m.copy().of == "" {
		return
	}
	delete(p.copies[m.copy().of], name)
	if len(p.copies[m.copy().of]) == 0 {
		delete(p.copies, m.copy().of)
	}
	m.copied = nil
}

// Outdated returns the models whose learned quota has to be forgotten, because a quota that
// covers them was said again or has changed since the last Notice. These are models that have a
// copy of another quota, and models of which only reports said anything.
func (p *sayings) Outdated(of string) (names []string) {
	if p.anew != of {
		return nil
	}
	for name := range p.copies[of] {
		names = append(names, name)
	}
	if strings.Contains(of, "*") {
		for name, m := range p.models {
			if (m.isAlone() || m.copy().of != of && m.copy().of != "" && len(m.copy().of) <= len(of)) && Covers(of, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// isAlone reports whether nothing but reports says anything of a model.
func (m *model) isAlone() bool {
	if !m.said.Has(state.Learned) {
		return false
	}
	_, _, founded := m.base()
	return !founded
}

// Alone returns the models of which nothing but reports says anything, sorted.
func (p *sayings) Alone() (names []string) {
	for name, m := range p.models {
		if m.isAlone() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
