// Package memlog is a store.Store in memory, for tests: it orders entries as any store does, and
// fails in every way that a store can.
//
// What goes wrong with a call is drawn from the seed, the process, the kind of the call and how
// many of it there were (Faults). What happens to the whole store is told to it (Store.LoseEnd
// and the like), or drawn from a seed, too (Script).
//
// In a bubble of testing/synctest it is deterministic: calls that reach the store at the same
// moment are put into order by process, kind and number, and nothing depends on which goroutine
// runs first.
package memlog
