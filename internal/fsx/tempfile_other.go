//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package fsx

import (
	"os"
	"time"
)

func claimTemp(*os.File) bool { return true }

// beforeRename closes the file: Windows renames no open ones.
func beforeRename(f *os.File) error { return f.Close() }

// SweepTemp removes the temporary file at path name if its writer is gone. Without locks
// only its age tells: it must be older than an hour. It ignores errors.
func SweepTemp(name string) {
	if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > time.Hour {
		os.Remove(name)
	}
}
