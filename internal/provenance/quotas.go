// Package provenance remembers where the quotas of a limiter come from: from its program, from
// profiles and files, or from reports of providers. The limiter asks it which quotas a file may
// replace and a report may raise, and which of them belong into a file.
package provenance

import "maps"

// Quotas tells where quotas come from. The zero value takes all of them for the program's. It goes
// by their values, because a program may change them by hand. Q is the type of a quota. Quotas is
// not safe for concurrent use.
type Quotas[Q comparable] struct {
	supplied map[string]Q
	learned  map[string]Correction[Q]
}

// Correction is a quota that a provider has corrected.
type Correction[Q comparable] struct {
	Is     Q // the corrected quota; if the model has another, the correction is void
	Said   Q // the quota before, if ByHand: its limits are never exceeded
	ByHand bool
	Copied bool // the model had the quota of all models
}

// Supply notes that a profile or a file, not the program, supplied a quota.
func (p *Quotas[Q]) Supply(name string, q Q) {
	if p.supplied == nil {
		p.supplied = make(map[string]Q)
	}
	p.supplied[name] = q
}

// Set notes that the program set the quota of a model. A correction stays: see Unlearn.
func (p *Quotas[Q]) Set(name string) { delete(p.supplied, name) }

// IsSupplied reports whether a quota is the one that was supplied.
func (p *Quotas[Q]) IsSupplied(name string, q Q) bool {
	s, ok := p.supplied[name]
	return ok && s == q
}

// Supplied returns a copy of the quotas that were supplied; the program may have replaced some.
func (p *Quotas[Q]) Supplied() map[string]Q { return maps.Clone(p.supplied) }

// Correction returns the correction that made q the quota of a model.
func (p *Quotas[Q]) Correction(name string, q Q) (c Correction[Q], ok bool) {
	c, ok = p.learned[name]
	return c, ok && c.Is == q
}

// IsCopy reports whether the quota of a model was a copy of that of all models when it was
// corrected.
func (p *Quotas[Q]) IsCopy(name string) bool { return p.learned[name].Copied }

// Learn notes that a quota was corrected. A quota that the program did not set counts as supplied,
// and is forgotten.
func (p *Quotas[Q]) Learn(name string, c Correction[Q]) {
	if c.ByHand && !c.Copied {
		p.Set(name)
	} else {
		p.Supply(name, c.Is)
	}
	if !c.Copied && (!c.ByHand || c.Is == c.Said) {
		p.Unlearn(name)
		return
	}
	if p.learned == nil {
		p.learned = make(map[string]Correction[Q])
	}
	p.learned[name] = c
}

// Unlearn forgets the correction of a quota.
func (p *Quotas[Q]) Unlearn(name string) { delete(p.learned, name) }

// UnlearnCopies forgets the corrections of copies of the quota of all models, deletes those copies
// from the quotas, and returns the names of the models that had one.
func (p *Quotas[Q]) UnlearnCopies(quotas map[string]Q) (names []string) {
	for name, c := range p.learned {
		if !c.Copied {
			continue
		}
		p.Unlearn(name)
		if quotas[name] == c.Is {
			delete(quotas, name)
			p.Set(name)
			names = append(names, name)
		}
	}
	return names
}

// Stored copies the quotas that belong into a file. Corrected copies of the quota of all models do
// not: read back, nothing would keep them below it.
func (p *Quotas[Q]) Stored(quotas map[string]Q) map[string]Q {
	quotas = maps.Clone(quotas)
	for name, c := range p.learned {
		if c.Copied && quotas[name] == c.Is {
			delete(quotas, name)
		}
	}
	return quotas
}
