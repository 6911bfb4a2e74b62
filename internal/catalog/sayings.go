package catalog

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// sayings remember who said the quota of each model: the limiter's program, its account, a file, a
// profile, and what reports of providers corrected. They decide which of them holds. The zero value
// takes all quotas for the program's. They go by the values, because a program may change these by
// hand: see Notice. They are not safe for concurrent use.
//
// What holds, of what was said of a model:
//
//  1. what the program said, and where that leaves a limit open (zero) what the account said. A
//     quota of the program that limits nothing stays as it is. While the account has not said
//     anything yet, what a file has of it takes its place.
//  2. else what the account said
//  3. else the same of a file: what a program and the account said that wrote it
//  4. else what a file says without an origin
//  5. else a profile of the program
//  6. else a profile that a file has
//
// A report of a provider lowers a limit of the program or the account, and replaces any other.
type sayings struct {
	models map[string]*model
	copies map[string]map[string]bool // the models with a corrected copy of a quota, by its name
	anew   string                     // the quota that was said anew since the last Notice, or changed

	// What files said of these, because other limiters had written it, is no longer true.
	removed recent[removed] // what was taken back of these models,
	resaid  bool            // and the account's limits, which it said anew
}

// model is what was said of the quota of one model.
type model struct {
	said *state.Said // by the program, the account, a profile, and reports: see say
	file state.Said  // by a file

	copied *copied // where the model has a corrected copy of another quota; nil for none

	is  state.Quota // the quota that holds
	has bool        // there is one
}

// copied is a quota that a model without one of its own was covered by when a report corrected it.
type copied struct {
	of     string // its name; "" for none
	is     state.Quota
	bounds state.Quota // its limits that are not exceeded
}

// nothing is what is said of a model of which only a file says something. It is never changed: few
// of the models of a large file have more.
var nothing state.Said

// say returns what is said of the model, to be changed.
func (m *model) say() *state.Said {
	if m.said == &nothing {
		m.said = new(state.Said)
	}
	return m.said
}

// unsay takes back what an origin says.
func (m *model) unsay(o state.Origin) {
	if m.said != &nothing {
		m.said.Drop(o)
	}
}

// noCopy is the copy of a model that has none.
var noCopy copied

// copy returns the copy that the model has, which is not to be changed.
func (m *model) copy() *copied {
	if m.copied == nil {
		return &noCopy
	}
	return m.copied
}

// removed is what the program and a file said of a quota that was taken back.
type removed struct{ program, file state.Quota }

// of returns what was said of a model, to be changed.
func (p *sayings) of(name string) *model {
	m := p.models[name]
	if m == nil {
		m = &model{said: &nothing}
		if p.models == nil {
			p.models = make(map[string]*model)
		}
		p.models[name] = m
	}
	return m
}

// Notice notes the quota that a model has, if it is not the one that holds: the program changed it
// by hand. Each change of what was said begins with it.
func (p *sayings) Notice(name string, is state.Quota, has bool) {
	p.anew = ""
	m := p.models[name]
	switch {
	case m == nil && !has || m != nil && m.has == has && m.is == is:
	case !has:
		p.dropCopy(name)
		delete(p.models, name)
	default:
		p.SetProgram(name, is)
	}
}

// SetProgram notes what the program said. It forgets what was learned.
func (p *sayings) SetProgram(name string, q state.Quota) {
	p.dropCopy(name)
	p.removed.Drop(name)
	p.anew = name
	m := p.of(name)
	m.say().Set(state.Program, q)
	m.unsay(state.Learned)
}

// Remove takes back what the program said of a model, or an earlier run of it that left it in a
// file, or may have done so. It forgets what was learned, unless there is nothing to take back.
func (p *sayings) Remove(name string) {
	m := p.models[name]
	if m == nil {
		return
	}
	said, bySaid := m.said.Get(state.Program)
	if !bySaid {
		said, bySaid = m.file.Get(state.Program)
	}
	file, byFile := m.file.Get(state.File)
	if !bySaid && !byFile {
		return
	}
	m.unsay(state.Program)
	m.unsay(state.Learned)
	was := removed{said, file}
	if !bySaid {
		was.program = file
	}
	if !byFile {
		was.file = said
	}
	m.forgetFile(was)
	p.removed.Put(name, was)
}

// forgetFile forgets what a file has of a quota that was taken back.
func (m *model) forgetFile(was removed) {
	m.file.Drop(state.Program)
	if q, ok := m.file.Get(state.File); ok && (q == was.program || q == was.file) {
		m.file.Drop(state.File)
	}
}

// SetAccount notes what the account says of a model; nothing where it does not name it.
func (p *sayings) SetAccount(name string, q state.Quota, named bool) {
	m := p.of(name)
	m.file.Drop(state.Account)
	if named {
		p.dropCopy(name)
		m.say().Set(state.Account, q)
	} else {
		m.unsay(state.Account)
	}
}

// Resaid notes that the account said all its limits anew: what files have of them is outdated.
func (p *sayings) Resaid() { p.resaid = true }

// Account returns what the account says, or a file has of it as long as it says nothing of the
// model.
func (p *sayings) Account() map[string]state.Quota {
	account := make(map[string]state.Quota)
	for name, m := range p.models {
		q, is := m.said.Get(state.Account)
		if !is {
			q, is = m.file.Get(state.Account)
		}
		if is {
			account[name] = q
		}
	}
	return account
}

// Changes returns the models of which the account says another thing than before, or nothing any
// more, if these are all its limits.
func (p *sayings) Changes(account map[string]state.Quota) (names []string) {
	for name, q := range account {
		if m := p.models[name]; m == nil || m.said.Only(state.Account) != state.SaidBy(state.Account, q) {
			names = append(names, name)
		}
	}
	for name, m := range p.models {
		if _, named := account[name]; !named && (m.said.Has(state.Account) || m.file.Has(state.Account)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Supply notes what a profile says of a model, in place of what the program and a file said.
func (p *sayings) Supply(name string, q state.Quota) {
	p.dropCopy(name)
	m := p.of(name)
	m.unsay(state.Program)
	m.unsay(state.Learned)
	m.say().Set(state.Profile, q)
	m.file = m.file.Only(state.Account)
}

// SupplyBelow notes what a profile says of a model, below what is said of it otherwise.
func (p *sayings) SupplyBelow(name string, q state.Quota) {
	m := p.of(name)
	m.say().Set(state.Profile, q)
	if !m.said.Has(state.Program) && !m.said.Has(state.Account) {
		p.dropCopy(name)
		m.unsay(state.Learned)
	}
}

// Origins returns who said each limit of the quota that a model has.
func (p *sayings) Origins(name string, is state.Quota) (origins [state.Dimensions]state.Origin) {
	m := p.models[name]
	if m == nil || m.is != is {
		return origins // the program, by hand
	}
	for of := range origins {
		origins[of] = m.origin(state.Dimension(of))
	}
	return origins
}

// Settle returns the quota of a model that holds, after all that was said; ok is false where
// nobody said anything. The caller gives the model that quota.
func (p *sayings) Settle(name string) (q state.Quota, ok bool) {
	m := p.models[name]
	if m == nil {
		return q, false
	}
	q, ok = m.holds()
	if q != m.is || ok != m.has {
		p.anew = name
	}
	if m.is, m.has = q, ok; !ok {
		delete(p.models, name)
	}
	return q, ok
}

// ProfileOf returns the row of a profile that gave a model its quota, directly or through a
// corrected copy. ok is false if anybody else said the quota.
func (p *sayings) ProfileOf(name string, is state.Quota) (row string, ok bool) {
	m := p.models[name]
	if m == nil || m.is != is {
		return "", false // the program set it by hand
	}
	for range p.models { // a copy of a copy is rare; an image may even have a circle of them
		switch {
		case m == nil || !m.has || m.file.Has(state.File):
			return "", false
		case m.said.Has(state.Program) || m.said.Has(state.Account) || m.file.Has(state.Program) || m.file.Has(state.Account):
			return "", false
		case m.said.Has(state.Profile) || m.file.Has(state.Profile):
			return name, true
		}
		name = m.copy().of
		m = p.models[name]
	}
	return "", false
}
