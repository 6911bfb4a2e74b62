//go:build unix

package child

import (
	"os"
	"syscall"
)

// caught are the signals that tell a program something.
var caught = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// isOfKeys reports whether a key of the terminal sends the signal.
func isOfKeys(is os.Signal) bool { return is == syscall.SIGINT || is == syscall.SIGQUIT }

func numberOf(is os.Signal) int {
	number, _ := is.(syscall.Signal)
	return int(number)
}

// statusOf is the status of a command that has ended.
func statusOf(is *os.ProcessState) int {
	if how, ok := is.Sys().(syscall.WaitStatus); ok && how.Signaled() {
		return BySignal + int(how.Signal())
	}
	return is.ExitCode()
}
