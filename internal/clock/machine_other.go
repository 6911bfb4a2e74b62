//go:build !linux

package clock

func machineTime() (nanos int64, ok bool) { return 0, false }

func bootOfMachine() string { return "" }
