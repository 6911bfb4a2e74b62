//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package ratelimit

import (
	"os"
	"time"
)

func claimTemp(*os.File) bool { return true }

// beforeRename closes the file: Windows renames no open ones.
func beforeRename(f *os.File) error { return f.Close() }

// sweepTemp removes a temporary file that nobody writes any more. Without locks
// only its age tells.
func sweepTemp(name string) {
	if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > time.Hour {
		os.Remove(name)
	}
}
