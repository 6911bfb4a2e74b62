package fsx

import (
	"os"
	"syscall"
)

// CheckLocal returns ErrRemote if dir is on a file system that other machines share, or
// the host of this one, and a *os.PathError where the system cannot tell.
func CheckLocal(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "check file system of", Path: dir, Err: err}
	}
	var kind []byte
	for _, c := range fs.Fstypename {
		if c == 0 {
			break
		}
		kind = append(kind, byte(c))
	}
	return refuseRemote(dir, string(kind))
}
