// What tests ask of the system, on Linux: to stop a process, to act as another user.

package persist

import (
	"syscall"
)

// becomeOnThisThread makes the calling thread, and no other, act on files as another user.
func becomeOnThisThread(uid int) bool {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
	return errno == 0
}
