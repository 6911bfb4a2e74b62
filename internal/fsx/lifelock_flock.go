//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fsx

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// LifeLock is a locked file that shows other processes that its owner lives. The kernel
// drops the lock with the process, and the file stays. Get one from HoldLife.
type LifeLock struct {
	path string
	mu   sync.Mutex
	file *os.File // nil once released
}

// HoldLife creates the file at path, locked. The path must be the caller's alone. The error
// wraps fs.ErrExist where the file is there, and errors.ErrUnsupported where the system
// has no such locks.
//
// A file that is created and not yet locked looks like that of a dead owner. So the file
// is locked first, and gets its name then.
func HoldLife(path string) (*LifeLock, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lock life file: %s: %w", path, cmp.Or(err, fs.ErrExist))
	}
	f, err := createTemp(path)
	if err != nil {
		return nil, fmt.Errorf("lock life file: %w", err)
	}
	// createTemp has locked it, unless the file system has no locks.
	if err = lockTemp(f); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, fmt.Errorf("lock life file: %w", err)
	}
	return &LifeLock{path: path, file: f}, nil
}

// Release removes the file and drops the lock. It leaves alone a file of another owner at
// the same path. Releasing twice is harmless, and so is releasing from several goroutines.
func (l *LifeLock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	if f == nil {
		return nil
	}
	l.file = nil
	err := removeOpen(l.path, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("unlock life file: %w", err)
	}
	return nil
}

// removeOpen removes the file at path if it is the open one, and still there.
func removeOpen(path string, f *os.File) error {
	if standsAt(path, f) != nil {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LivenessOf tells whether the owner of the life file at path lives. It is safe to call at
// any time, by any process.
func LivenessOf(path string) Liveness {
	f, err := os.OpenFile(path, os.O_RDONLY|openNoFollow, 0)
	if err != nil {
		return Unknown
	}
	defer f.Close()
	// A shared lock, so that two processes that look do not take each other for the owner.
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return Alive
	case err != nil || standsAt(path, f) != nil: // or released just now
		return Unknown
	}
	return Dead
}

// RemoveDead removes the life file at path if its owner is dead. It holds the file's lock
// meanwhile, so that the file at path cannot be another owner's. It ignores errors.
func RemoveDead(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|openNoFollow, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if ok, _ := tryLockFile(f); ok {
		removeOpen(path, f)
	}
}
