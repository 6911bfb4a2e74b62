package terminal

import (
	"os"
	"syscall"
)

func isTerminal(file *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) == nil
}

// InForeground is true: Ctrl-C reaches all processes of a console.
func InForeground() bool { return true }
