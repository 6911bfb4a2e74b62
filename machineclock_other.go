//go:build !linux

package ratelimit

func machineTime() (nanos int64, ok bool) { return 0, false }

func bootOfMachine() string { return "" }
