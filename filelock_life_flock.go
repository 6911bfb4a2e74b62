//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// lifeLock is a locked file that shows others that its owner lives. The kernel
// drops the lock with the process, and the file stays.
type lifeLock struct {
	path string
	mu   sync.Mutex
	file *os.File // nil once released
}

// holdLife creates the file at path, locked. No one but the caller may choose
// that path.
//
// Between creating a file and locking it, it looks like that of a dead one. So
// it gets its name when it is locked.
func holdLife(path string) (*lifeLock, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("hold life: %s: %w", path, cmp.Or(err, fs.ErrExist))
	}
	f, err := createTemp(path)
	if err != nil {
		return nil, fmt.Errorf("hold life: %w", err)
	}
	// It is locked already, unless there are no locks.
	if err = lockTemp(f); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, fmt.Errorf("hold life: %w", err)
	}
	return &lifeLock{path: path, file: f}, nil
}

// release removes the file and drops the lock.
func (l *lifeLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	if f == nil {
		return nil
	}
	l.file = nil
	err := removeOpen(l.path, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("release life: %w", err)
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

// lifeOf tells whether the owner of the life file at path lives.
func lifeOf(path string) liveness {
	f, err := os.OpenFile(path, os.O_RDONLY|openNoFollow, 0)
	if err != nil {
		return lifeUnknown
	}
	defer f.Close()
	// A shared lock, lest one that looks takes another that looks for the owner.
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return lifeAlive
	case err != nil || standsAt(path, f) != nil: // or released just now
		return lifeUnknown
	}
	return lifeDead
}

// buryLife removes the life file of a dead owner. It does so with the file
// locked: that at path can then be no other one.
func buryLife(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|openNoFollow, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if ok, _ := tryLockFile(f); ok {
		removeOpen(path, f)
	}
}
