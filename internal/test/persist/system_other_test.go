//go:build !linux

// What tests ask of the system, where it cannot do it.

package persist

func becomeOnThisThread(int) bool { return false }
