//go:build !unix

package child

import (
	"os"
	"syscall"
)

var caught = []os.Signal{os.Interrupt}

func isOfKeys(is os.Signal) bool { return is == os.Interrupt }

func numberOf(is os.Signal) int {
	number, _ := is.(syscall.Signal)
	return int(number)
}

func statusOf(is *os.ProcessState) int { return is.ExitCode() }
