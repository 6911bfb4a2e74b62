//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package ratelimit

import (
	"io/fs"
	"os"
	"syscall"
)

// lockTemp marks a temporary file as being written. The kernel drops the mark
// with the process. Where locks are not to be had, the file is merely taken for
// an abandoned one by a writer that starts in the same moment, and this writer's
// rename fails.
func lockTemp(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// abandoned reports whether nobody writes the temporary file any more.
func abandoned(name string, _ fs.FileInfo) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
