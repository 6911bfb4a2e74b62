//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package doctor

import (
	"errors"
	"os"
	"syscall"
)

// lockHolds reports whether a lock on a file keeps out another one.
func lockHolds(path string) (bool, error) {
	var both [2]*os.File
	for i := range both {
		file, err := os.Open(path)
		if err != nil {
			return false, err
		}
		defer file.Close()
		both[i] = file
	}
	for _, file := range both {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}
