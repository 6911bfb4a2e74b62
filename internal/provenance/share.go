package provenance

import "dappco.re/go/core/go-ratelimit/internal/state"

// Shared returns what the processes that share a store said of a model, as the program and the
// account: q is the quota that the store has, and from tells its origins, if they are known. A
// store has nothing of the profiles and reports of the processes, unless it was a file of one
// limiter before.
func Shared(q state.Quota, from state.Said) (said state.Said) {
	learned, _ := from.Get(state.Learned)
	from.Drop(state.Learned)
	file, byFile := from.Get(state.File)
	switch {
	case isUnknown(q, learned, from):
		from.Set(state.Program, q) // some program said it
	case byFile && !from.Has(state.Program) && !from.Has(state.Account):
		from.Set(state.Program, file)
	}
	return from.Only(state.Program, state.Account)
}

// Share takes over what a shared store has of a model, and returns what Shared does.
func (p *Quotas) Share(name string, q state.Quota, from state.Said) (said state.Said) {
	said = Shared(q, from)
	p.Tell(name, said, state.Program)
	p.models[name].file = from.Only(state.Profile)
	return said
}

// Tell notes what the processes of a shared store say of a model after one of them, the program or
// the account, said something. The program's say forgets what was learned.
func (p *Quotas) Tell(name string, said state.Said, by state.Origin) {
	p.dropCopy(name)
	if by == state.Program {
		p.anew = name
	}
	p.of(name).tell(said, by)
}

// tell is Tell.
func (m *model) tell(said state.Said, by state.Origin) {
	if by == state.Program {
		m.unsay(state.Learned)
	}
	for _, o := range [...]state.Origin{state.Program, state.Account} {
		m.unsay(o)
		if q, ok := said.Get(o); ok {
			m.say().Set(o, q)
		}
	}
}

// After returns the quota that would hold after Tell; ok is false where there would be none.
func (p *Quotas) After(name string, said state.Said, by state.Origin) (q state.Quota, ok bool) {
	m := model{said: new(state.Said)} // a copy, which changes nothing
	if is := p.models[name]; is != nil {
		own := *is.said
		m = *is
		m.said = &own
	}
	m.copied = nil
	m.tell(said, by)
	return m.holds()
}
