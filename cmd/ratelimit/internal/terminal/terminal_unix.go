//go:build linux || darwin

package terminal

import (
	"os"
	"syscall"
	"unsafe"
)

func isTerminal(file *os.File) bool {
	_, ok := foregroundOf(file)
	return ok
}

// InForeground reports whether keys such as Ctrl-C reach this process, and those of its group with
// it.
func InForeground() bool {
	file, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer file.Close()
	group, ok := foregroundOf(file)
	return ok && group == syscall.Getpgrp()
}

// foregroundOf returns the group of processes that a terminal sends signals to. It is the
// terminal of this process, or ok is false.
func foregroundOf(file *os.File) (group int, ok bool) {
	var answer int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&answer)))
	return int(answer), errno == 0
}
