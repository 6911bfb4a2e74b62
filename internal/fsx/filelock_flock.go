//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fsx

import (
	"errors"
	"os"
	"syscall"
)

// openNoFollow opens no symbolic link, and does not wait for the other end of a pipe.
const openNoFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func lockFile(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func tryLockFile(f *os.File) (ok bool, err error) {
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unlockFile(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
