package redistest

import "syscall"

// The signals of Pause and Resume.
const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

// diesWithParent has the system end a process when the test binary ends without its cleanup.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
