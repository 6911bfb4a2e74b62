package catalog

import "dappco.re/go/core/go-ratelimit/internal/state"

// base returns the quota without the corrections of reports, and those of its limits that the
// program and the account said.
func (m *model) base() (q, bounds state.Quota, ok bool) {
	program, byProgram := m.said.Get(state.Program)
	account, byAccount := m.said.Get(state.Account)
	switch {
	case byProgram:
		bounds = program
		if byAccount {
			bounds = program.Over(&account)
		} else {
			account, _ = m.file.Get(state.Account)
		}
		return program.Over(&account), bounds, true
	case byAccount:
		return account, account, true
	case m.file.Has(state.Program) || m.file.Has(state.Account):
		return QuotaOf(m.file), state.Quota{}, true
	}
	for _, of := range [...]struct {
		said   *state.Said
		origin state.Origin
	}{{&m.file, state.File}, {m.said, state.Profile}, {&m.file, state.Profile}} {
		if q, ok = of.said.Get(of.origin); ok {
			return q, state.Quota{}, true
		}
	}
	return m.copy().is, m.copy().bounds, m.copy().of != ""
}

// QuotaOf returns the quota that holds, of what the program and others said; it passes over
// corrections.
func QuotaOf(said state.Said) state.Quota {
	program, byProgram := said.Get(state.Program)
	account, byAccount := said.Get(state.Account)
	switch {
	case byProgram:
		return program.Over(&account)
	case byAccount:
		return account
	}
	if q, ok := said.Get(state.File); ok {
		return q
	}
	q, _ := said.Get(state.Profile)
	return q
}

// holds returns the quota that holds; ok is false where there is none.
func (m *model) holds() (q state.Quota, ok bool) {
	q, bounds, ok := m.base()
	learned, learns := m.said.Get(state.Learned)
	return corrected(q, learned, bounds), ok || learns
}

// corrected returns a quota with the limits of reports, but none above those of bounds.
func corrected(q, learned, bounds state.Quota) state.Quota {
	for of := range state.InFlight {
		limit, report, bound := q.Limit(of), *learned.Limit(of), *bounds.Limit(of)
		switch {
		case report <= 0 || *limit < 0:
		case bound > 0:
			*limit = min(report, bound)
		default:
			*limit = report
		}
	}
	return q
}

// origin returns who said one limit of the quota that holds. What a file says of the program and
// the account of another time is the file's.
func (m *model) origin(of state.Dimension) state.Origin {
	if base, _, _ := m.base(); *base.Limit(of) != *m.is.Limit(of) {
		return state.Learned
	}
	program, byProgram := m.said.Get(state.Program)
	switch {
	case byProgram && (*program.Limit(of) != 0 || *m.is.Limit(of) == 0):
		return state.Program
	case m.said.Has(state.Account):
		return state.Account
	case m.file.Has(state.Program) || m.file.Has(state.Account) || m.file.Has(state.File):
		return state.File
	case m.copy().of != "":
		return state.Learned
	}
	return state.Profile
}

// stored returns what a file is to hold of a model: of each origin what counts, and of the limits
// that were learned those that do.
func (m *model) stored() (said state.Said) {
	said = m.file
	if m.said.Has(state.Program) || m.said.Has(state.Account) {
		said.Drop(state.Program)
	}
	for _, o := range [...]state.Origin{state.Program, state.Account, state.Profile} {
		if q, ok := m.said.Get(o); ok {
			said.Set(o, q)
		}
	}
	if said.Has(state.Program) {
		said.Drop(state.File) // what the file said of it before is overwritten
	}
	if !m.said.Has(state.Learned) {
		return said
	}
	base := QuotaOf(said)
	var learned state.Quota
	for of := range state.InFlight {
		if limit := *m.is.Limit(of); limit != *base.Limit(of) {
			*learned.Limit(of) = limit
		}
	}
	if learned != (state.Quota{}) {
		said.Set(state.Learned, learned)
	}
	return said
}
