package fsx

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// CheckLocal returns ErrRemote if dir is on another machine's disk.
func CheckLocal(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("check file system of %s: %w", dir, err)
	}
	if target, err := filepath.EvalSymlinks(full); err == nil { // not possible on all volumes
		full = target
	}
	volume := filepath.VolumeName(full)
	if isUNC(volume) {
		return fmt.Errorf("folder %s is on a network share: %w", dir, ErrRemote)
	}
	root, err := windows.UTF16PtrFromString(volume + `\`)
	if err != nil {
		return fmt.Errorf("check file system of %s: %w", dir, err)
	}
	if windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return fmt.Errorf("folder %s is on a network drive: %w", dir, ErrRemote)
	}
	return nil
}
