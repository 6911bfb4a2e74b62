//go:build !linux

package redistest

import "syscall"

// Pause and Resume are for Linux. Elsewhere they fail the test.
const (
	stopSignal     = syscall.Signal(-1)
	continueSignal = syscall.Signal(-1)
)

func diesWithParent() *syscall.SysProcAttr { return nil }
