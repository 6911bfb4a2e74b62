// What tests ask of the system, on Linux: to stop a process, to act as another user.

package persist

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedStop stops a child process, as Ctrl-Z does, and returns when all its threads have stopped:
// the signal alone leaves them the time to take a slot.
func sharedStop(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		if err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED, nil); err != unix.EINTR {
			return err
		}
	}
}

// sharedContinue lets a stopped process go on.
func sharedContinue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// becomeOnThisThread makes the calling thread, and no other, act on files as another user.
func becomeOnThisThread(uid int) bool {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
	return errno == 0
}
