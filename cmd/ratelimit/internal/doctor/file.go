package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// disk looks at the file system of the quota, and reports whether its file can be looked at.
func (e *examination) disk() bool {
	path := fsx.Absolute(e.File)
	if target, err := fsx.Target(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	folder := filepath.Dir(path)
	for ; errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); err == nil {
			break
		}
	}
	switch remote := fsx.CheckLocal(folder); {
	case errors.Is(remote, fsx.ErrRemote):
		e.find(checkDisk, path, "name a file on a local disk with --db; for several machines use --redis", "%v", remote)
	case remote != nil:
		e.note("whether %s is on a disk of this machine cannot be told: %v", folder, remote)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		e.find(checkFile, path, "run this as the user who owns it", "%v", err)
	case !info.Mode().IsRegular():
		e.find(checkFile, path, "name another file with --db", "it is no regular file")
	default:
		return true
	}
	return false
}

// file looks at a file that is a shared quota.
func (e *examination) file() {
	path := fsx.Absolute(e.File)
	info, err := os.Stat(path)
	if err != nil {
		return // it was there a moment ago
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		e.find(checkFile, path, "chmod 600 "+path, "others may use it (mode %04o)", info.Mode().Perm())
	}
	if ahead := info.ModTime().Sub(e.Now); ahead > clockSlack {
		e.find(checkClock, path, "set the clock of this machine, and have a time service keep it",
			"the file was written %v in the future: the clock was set back", ahead.Round(clockStep))
	}
	e.locks(path)
}

// locks looks whether a lock on the file keeps others out. It is one of another kind than those
// that the programs and SQLite take, so it holds up nobody.
func (e *examination) locks(path string) {
	holds, err := lockHolds(path)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		e.note("whether file locks work cannot be told on this system without writing")
	case err != nil:
		e.find(checkLocks, path, "name a file on another file system with --db", "it cannot be locked: %v", err)
	case !holds:
		e.find(checkLocks, path, "name a file on another file system with --db", "two can lock it at a time")
	}
}
