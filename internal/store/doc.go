// Package store is the seam between limiters that share a quota and the place they share it in.
//
// A Store orders the commands of all processes in one log and keeps an image of the state that
// they lead to. It knows nothing of quotas: commands and images are opaque bytes. Each process
// applies every entry, in the order of the log, to an engine of its own.
//
// Who may write to a store may do everything with the quota. Nothing in a log is secret: it holds
// names of models and numbers, and neither keys nor prompts.
//
// Package storetest has the suite that every Log passes, and memlog a Log that fails.
package store
