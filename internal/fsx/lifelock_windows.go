package fsx

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/windows"
)

// LifeLock is a file that its owner has open and unshared from the moment of its creation,
// which shows other processes that the owner lives. Windows closes it with the process,
// and the file stays. Get one from HoldLife.
type LifeLock struct {
	path string
	mu   sync.Mutex
	file windows.Handle // 0 once released
}

// HoldLife creates the file at path, unshared. The path must be the caller's alone. The
// error wraps fs.ErrExist where the file is there.
func HoldLife(path string) (*LifeLock, error) {
	h, err := createFile(path, windows.GENERIC_WRITE, 0, windows.CREATE_NEW, 0)
	if err != nil {
		return nil, fmt.Errorf("lock life file: %s: %w", path, err)
	}
	return &LifeLock{path: path, file: h}, nil
}

// Release closes and removes the file. Releasing twice is harmless, and so is releasing
// from several goroutines.
func (l *LifeLock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.file
	if h == 0 {
		return nil
	}
	l.file = 0
	if err := windows.CloseHandle(h); err != nil {
		return fmt.Errorf("unlock life file: %s: %w", l.path, err)
	}
	RemoveDead(l.path)
	return nil
}

// LivenessOf tells whether the owner of the life file at path lives. It is safe to call at
// any time, by any process.
func LivenessOf(path string) Liveness {
	const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := createFile(path, windows.GENERIC_READ, shared, windows.OPEN_EXISTING, 0)
	switch {
	case errors.Is(err, windows.ERROR_SHARING_VIOLATION):
		return Alive
	case err != nil:
		return Unknown
	}
	windows.CloseHandle(h)
	return Dead
}

// RemoveDead removes the life file at path if its owner is dead. The file is unshared
// meanwhile, so that it cannot be another owner's. It ignores errors.
func RemoveDead(path string) {
	h, err := createFile(path, windows.DELETE, 0, windows.OPEN_EXISTING, windows.FILE_FLAG_DELETE_ON_CLOSE)
	if err == nil {
		windows.CloseHandle(h)
	}
}

func createFile(path string, access, share, how, flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	return windows.CreateFile(name, access, share, nil, how, flags|windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
}
