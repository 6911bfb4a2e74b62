package catalog

import (
	"iter"
	"maps"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Holds returns the quota that holds by what was said; ok is false where there is none.
func (p *sayings) Holds(name string) (q state.Quota, ok bool) {
	m := p.models[name]
	if m == nil {
		return q, false
	}
	return m.is, m.has
}

// All visits the quotas that hold, in any order.
func (p *sayings) All() iter.Seq2[string, state.Quota] {
	return func(yield func(string, state.Quota) bool) {
		for name, m := range p.models {
			if m.has && !yield(name, m.is) {
				return
			}
		}
	}
}

// AppendImage appends all that was said as bytes. The quotas that hold follow from it. It may be
// called where Settle has followed the last change.
func (p *sayings) AppendImage(to []byte) []byte {
	to = wire.AppendBool(to, p.resaid)
	to = p.removed.AppendImage(to, func(to []byte, was removed) []byte {
		return was.file.AppendImage(was.program.AppendImage(to))
	})
	to = wire.AppendUint(to, uint64(len(p.models)))
	for _, name := range slices.Sorted(maps.Keys(p.models)) {
		to = p.models[name].appendImage(wire.AppendString(to, name))
	}
	return to
}

func (m *model) appendImage(to []byte) []byte {
	to = m.file.AppendImage(m.said.AppendImage(to))
	c := m.copy()
	if to = wire.AppendString(to, c.of); c.of != "" {
		to = c.bounds.AppendImage(c.is.AppendImage(to))
	}
	return to
}

// readSayings reads an image. After an error nothing is said.
func readSayings(r *wire.Reader) (p sayings) {
	p.resaid = r.Bool()
	p.removed = readRecent(r, func(r *wire.Reader) removed {
		program := state.ReadQuota(r)
		return removed{program, state.ReadQuota(r)}
	})
	last := ""
	for i := range r.Count(math.MaxInt, 4) {
		name := r.String(math.MaxInt)
		if i > 0 && name <= last {
			r.Fail("name out of order")
		}
		if p.readModel(r, name); r.Err() != nil {
			return sayings{}
		}
		last = name
	}
	return p
}

// readModel reads what was said of a model. It accepts copies of each other: ProfileOf ends in such
// a circle, too.
func (p *sayings) readModel(r *wire.Reader, name string) {
	m := p.of(name)
	if said := state.ReadSaid(r, state.Program, state.Account, state.Profile, state.Learned); !said.IsEmpty() {
		m.said = &said
	}
	m.file = state.ReadSaid(r, state.Program, state.Account, state.File, state.Profile)
	if of := r.String(math.MaxInt); of != "" {
		is := state.ReadQuota(r)
		p.copyOf(name, copied{of, is, state.ReadQuota(r)})
	}
	if learned, learns := m.said.Get(state.Learned); learns && learned == (state.Quota{}) {
		r.Fail("lesson without a limit")
	}
	if m.is, m.has = m.holds(); !m.has {
		r.Fail("quota of which nothing is said")
	}
}
