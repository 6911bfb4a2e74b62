package provenance

import "dappco.re/go/core/go-ratelimit/internal/state"

// Share takes over what a shared store holds of a model: q is the quota that holds there, and from
// tells its origins, if they are known. It returns what the processes said, as the program and the
// account. A store has nothing of their profiles and reports, unless it was a file of one limiter
// before.
func (p *Quotas) Share(name string, q state.Quota, from state.Said) (said state.Said) {
	learned, _ := from.Get(state.Learned)
	from.Drop(state.Learned)
	file, byFile := from.Get(state.File)
	switch {
	case isUnknown(q, learned, from):
		from.Set(state.Program, q) // some program said it
	case byFile && !from.Has(state.Program) && !from.Has(state.Account):
		from.Set(state.Program, file)
	}
	said = from.Only(state.Program, state.Account)
	p.Tell(name, said)
	p.models[name].file = from.Only(state.Profile)
	return said
}

// Tell notes what the processes of a shared store say of a model from now on.
func (p *Quotas) Tell(name string, said state.Said) {
	p.dropCopy(name)
	p.of(name).tell(said)
}

// tell is Tell. Where the account says nothing new, some program has set the quota again, which
// forgets what was learned.
func (m *model) tell(said state.Said) {
	account := said.Only(state.Account)
	if m.said.Only(state.Program) != said.Only(state.Program) || m.said.Only(state.Account) == account {
		m.said.Drop(state.Learned)
	}
	for _, o := range [...]state.Origin{state.Program, state.Account} {
		m.said.Drop(o)
		if q, ok := said.Get(o); ok {
			m.said.Set(o, q)
		}
	}
}

// After returns the quota that would hold after Tell; ok is false where there would be none.
func (p *Quotas) After(name string, said state.Said) (q state.Quota, ok bool) {
	var m model
	if is := p.models[name]; is != nil {
		m = *is
	}
	m.copied = copied{}
	m.tell(said)
	return m.holds()
}
