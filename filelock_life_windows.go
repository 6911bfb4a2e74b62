package ratelimit

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/windows"
)

// lifeLock is a file that its owner has open and shares with nobody, which shows
// others that it lives. Windows closes it with the process, and the file stays.
// It is not shared from the moment it is created.
type lifeLock struct {
	path string
	mu   sync.Mutex
	file windows.Handle // 0 once released
}

// holdLife creates the file at path, for itself alone. No one but the caller may
// choose that path.
func holdLife(path string) (*lifeLock, error) {
	h, err := createFile(path, windows.GENERIC_WRITE, 0, windows.CREATE_NEW, 0)
	if err != nil {
		return nil, fmt.Errorf("hold life: %s: %w", path, err)
	}
	return &lifeLock{path: path, file: h}, nil
}

// release closes and removes the file.
func (l *lifeLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.file
	if h == 0 {
		return nil
	}
	l.file = 0
	if err := windows.CloseHandle(h); err != nil {
		return fmt.Errorf("release life: %s: %w", l.path, err)
	}
	buryLife(l.path)
	return nil
}

// lifeOf tells whether the owner of the life file at path lives.
func lifeOf(path string) liveness {
	const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := createFile(path, windows.GENERIC_READ, shared, windows.OPEN_EXISTING, 0)
	switch {
	case errors.Is(err, windows.ERROR_SHARING_VIOLATION):
		return lifeAlive
	case err != nil:
		return lifeUnknown
	}
	windows.CloseHandle(h)
	return lifeDead
}

// buryLife removes the life file of a dead owner. It is not shared while that
// happens, so it can be no other one.
func buryLife(path string) {
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
