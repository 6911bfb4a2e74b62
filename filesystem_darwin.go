package ratelimit

import (
	"os"
	"syscall"
)

// checkLocalFileSystem returns an error if dir is on a file system that other
// machines share, or the host of this one.
func checkLocalFileSystem(dir string) error {
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
