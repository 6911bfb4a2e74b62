//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package ratelimit

import (
	"errors"
	"os"
	"syscall"
)

// claimTemp locks a temporary file that was just created, and reports whether it
// still stands. The kernel drops the lock with the process. Where locks are not
// to be had, nobody sweeps either.
func claimTemp(f *os.File) bool {
	if err := lockTemp(f); err != nil {
		return !errors.Is(err, syscall.EWOULDBLOCK)
	}
	// A sweep that was done with the file before it could be locked removed it.
	_, err := os.Lstat(f.Name())
	return err == nil
}

func lockTemp(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// beforeRename does nothing: the lock is held until the file has its name.
func beforeRename(*os.File) error { return nil }

// sweepTemp removes a temporary file that nobody writes any more. It does so
// with the file locked, so that nobody begins to.
func sweepTemp(name string) {
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if lockTemp(f) == nil {
		os.Remove(name)
	}
}
