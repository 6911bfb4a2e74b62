package catalog

import "dappco.re/go/core/go-ratelimit/internal/state"

// SharedSaying returns what the processes that share a store said of a model, as the program and
// the account: q is the quota that the store has, and from tells its origins, if they are known. A
// store has nothing of the profiles and reports of the processes, unless it was a file of one
// limiter before.
func SharedSaying(q state.Quota, from state.Said) (said state.Said) {
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
