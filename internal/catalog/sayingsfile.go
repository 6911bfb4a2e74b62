package catalog

import "dappco.re/go/core/go-ratelimit/internal/state"

// Loaded notes the quota of a model that a file has, and what Stored returned when it was written;
// nothing in files before there was that. What was learned replaces what is known only where
// neither the program nor the account said anything, and is forgotten where the limiter does not
// learn.
func (p *sayings) Loaded(name string, q state.Quota, from state.Said, learns bool) {
	learned, _ := from.Get(state.Learned)
	from.Drop(state.Learned)
	if isUnknown(q, learned, from) {
		learned, from = state.Quota{}, state.SaidBy(state.File, q)
	}
	if p.resaid {
		from.Drop(state.Account)
	}
	m := p.of(name)
	m.file = from
	if was, removed := p.removed.Get(name); removed {
		m.forgetFile(was)
	}
	if m.said.Has(state.Program) || m.said.Has(state.Account) {
		return
	}
	p.dropCopy(name)
	m.unsay(state.Learned)
	if learns && learned != (state.Quota{}) {
		m.say().Set(state.Learned, learned)
	}
}

// isUnknown reports whether it is unknown where a quota of a file comes from: the file says nothing
// of that, or another quota, because somebody changed it who did not know of origins.
func isUnknown(q, learned state.Quota, from state.Said) bool {
	return from.IsEmpty() && learned == (state.Quota{}) || corrected(QuotaOf(from), learned, state.Quota{}) != q
}

// Stored returns what a file is to hold beside the quotas: who said them, where that was not the
// program alone, and which of them neither the program nor the account said. It deletes from quotas
// what does not belong into a file: corrected copies of another quota. Read back, nothing would
// keep them below that.
func (p *sayings) Stored(quotas map[string]state.Quota) (said map[string]state.Said, supplied map[string]bool) {
	said, supplied = make(map[string]state.Said), make(map[string]bool)
	for name, q := range quotas {
		switch m := p.models[name]; {
		case m == nil || m.is != q:
		case m.copy().of != "":
			delete(quotas, name)
		default:
			is := m.stored()
			if is != state.SaidBy(state.Program, q) && is != state.SaidBy(state.File, q) {
				said[name] = is
			}
			supplied[name] = !m.said.Has(state.Program) && !m.said.Has(state.Account)
		}
	}
	return said, supplied
}
