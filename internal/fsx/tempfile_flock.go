//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fsx

import (
	"errors"
	"os"
	"syscall"
)

// claimTemp locks a temporary file that was just created, and reports whether it still
// stands. The kernel drops the lock with the process. Where the file system has no locks,
// no sweep can remove the file either.
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

// SweepTemp removes the temporary file at path name if its writer is gone. It holds the
// file's lock meanwhile, so that no new writer begins. It ignores errors.
func SweepTemp(name string) {
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if lockTemp(f) == nil {
		os.Remove(name)
	}
}
