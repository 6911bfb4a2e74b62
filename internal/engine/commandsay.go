package engine

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// SetQuota is the program's quota of a counted name.
type SetQuota struct {
	Counted string
	Quota   state.Quota
}

// Append appends the command.
func (c SetQuota) Append(to []byte) []byte {
	return c.Quota.AppendImage(wire.AppendString(wire.AppendUint(to, kindSetQuota), c.Counted))
}

func readSetQuota(r *wire.Reader) Command {
	return SetQuota{Counted: readString(r), Quota: state.ReadQuota(r)}
}

func (c SetQuota) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.SetQuota(c.Counted, c.Quota) }, nil, now)
	return o
}

// RemoveQuota takes back what the program said of a counted name.
type RemoveQuota struct{ Counted string }

// Append appends the command.
func (c RemoveQuota) Append(to []byte) []byte {
	return wire.AppendString(wire.AppendUint(to, kindRemoveQuota), c.Counted)
}

func readRemoveQuota(r *wire.Reader) Command { return RemoveQuota{Counted: readString(r)} }

func (c RemoveQuota) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.RemoveQuota(c.Counted) }, nil, now)
	return o
}

// SetAccount is all limits of the account.
type SetAccount struct{ Quotas map[string]state.Quota }

// Append appends the command.
func (c SetAccount) Append(to []byte) []byte {
	return appendNamed(wire.AppendUint(to, kindSetAccount), c.Quotas, appendQuota)
}

func readSetAccount(r *wire.Reader) Command {
	return SetAccount{Quotas: readNamed(r, state.ReadQuota)}
}

func (c SetAccount) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.SetAccount(c.Quotas) }, nil, now)
	return o
}

// AddProfile is a provider's profile.
type AddProfile struct{ Profile catalog.Profile }

// Append appends the command.
func (c AddProfile) Append(to []byte) []byte {
	p := &c.Profile
	to = wire.AppendBool(wire.AppendString(wire.AppendUint(to, kindAddProfile), p.Provider), p.Below)
	to = wire.AppendUint(to, uint64(len(p.Rows)))
	for i := range p.Rows {
		row := &p.Rows[i]
		to = row.Quota.AppendImage(wire.AppendString(wire.AppendString(to, row.Name), row.Group))
	}
	return to
}

func readAddProfile(r *wire.Reader) Command {
	p := catalog.Profile{Provider: readString(r), Below: r.Bool()}
	p.Rows = make([]catalog.Row, r.Count(math.MaxInt, 3))
	for i := range p.Rows {
		p.Rows[i] = catalog.Row{Name: readString(r), Group: readString(r), Quota: state.ReadQuota(r)}
	}
	return AddProfile{p}
}

func (c AddProfile) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.AddProfile(&c.Profile) }, nil, now)
	return o
}

// Learn is a quota of a counted name as corrected by a report: see catalog.Catalog.Lesson.
type Learn struct {
	Counted string
	Quota   state.Quota
}

// Append appends the command.
func (c Learn) Append(to []byte) []byte {
	return c.Quota.AppendImage(wire.AppendString(wire.AppendUint(to, kindLearn), c.Counted))
}

func readLearn(r *wire.Reader) Command {
	return Learn{Counted: readString(r), Quota: state.ReadQuota(r)}
}

func (c Learn) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Provider, func(known *catalog.Catalog) []catalog.Change { return known.Learn(c.Counted, c.Quota) }, nil, now)
	return o
}

// ForgetLearned forgets what was learned of a counted name, or of all where it is "".
type ForgetLearned struct{ Counted string }

// Append appends the command.
func (c ForgetLearned) Append(to []byte) []byte {
	return wire.AppendString(wire.AppendUint(to, kindForgetLearned), c.Counted)
}

func readForgetLearned(r *wire.Reader) Command { return ForgetLearned{Counted: readString(r)} }

func (c ForgetLearned) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.ForgetLearned(c.Counted) }, nil, now)
	return o
}

// SetPool is a pool of the program, by its counted name.
type SetPool struct {
	Counted string
	Models  []string
	Quota   state.Quota
}

// Append appends the command.
func (c SetPool) Append(to []byte) []byte {
	return c.Quota.AppendImage(appendStrings(wire.AppendString(wire.AppendUint(to, kindSetPool), c.Counted), c.Models))
}

func readSetPool(r *wire.Reader) Command {
	return SetPool{Counted: readString(r), Models: readStrings(r), Quota: state.ReadQuota(r)}
}

func (c SetPool) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.SetPool(c.Counted, c.Models, c.Quota) }, nil, now)
	return o
}

// RemovePool takes back what the program and files said of a pool.
type RemovePool struct{ Counted string }

// Append appends the command.
func (c RemovePool) Append(to []byte) []byte {
	return wire.AppendString(wire.AppendUint(to, kindRemovePool), c.Counted)
}

func readRemovePool(r *wire.Reader) Command { return RemovePool{Counted: readString(r)} }

func (c RemovePool) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Program, func(known *catalog.Catalog) []catalog.Change { return known.RemovePool(c.Counted) }, nil, now)
	if !e.Catalog.IsPool(c.Counted) {
		e.Remove(c.Counted, now)
	}
	return o
}

// Loaded is a file that a process has read.
type Loaded struct {
	File   catalog.File
	Learns bool
}

// Append appends the command.
func (c Loaded) Append(to []byte) []byte {
	to = wire.AppendBool(wire.AppendUint(to, kindLoaded), c.Learns)
	to = appendNamed(to, c.File.Quotas, appendQuota)
	to = appendNamed(to, c.File.Said, func(to []byte, s state.Said) []byte { return s.AppendImage(to) })
	return appendNamed(to, c.File.Pools, appendStrings)
}

func readLoaded(r *wire.Reader) Command {
	c := Loaded{Learns: r.Bool()}
	c.File.Quotas = readNamed(r, state.ReadQuota)
	c.File.Said = readNamed(r, func(r *wire.Reader) state.Said {
		return state.ReadSaid(r, state.Program, state.Account, state.File, state.Profile, state.Learned)
	})
	c.File.Pools = readNamed(r, readStrings)
	return c
}

func (c Loaded) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Say(Provider, func(known *catalog.Catalog) []catalog.Change { return known.Loaded(&c.File, c.Learns) }, nil, now)
	return o
}
