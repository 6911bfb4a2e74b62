// What tests ask of the system, on Linux: to stop a process, to act as another user.

package ratelimit_test

import (
	"os"
	"syscall"
)

// sharedStop stops a process, as Ctrl-Z does, and sharedContinue lets it go on.
func sharedStop(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func sharedContinue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// becomeOnThisThread makes the calling thread, and no other, act on files as another user.
func becomeOnThisThread(uid int) bool {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
	return errno == 0
}
