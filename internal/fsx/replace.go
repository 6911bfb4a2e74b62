package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Replace writes a file so that a crash at any moment leaves the old one or the new one: a
// temporary file beside it, synced, renamed over it, and the folder synced. It makes the
// folder where that is missing. A symbolic link is followed, and stays.
//
// write gets the temporary file. Where it fails, or any step does, the old file stays as
// it was. It is for one goroutine a path; where several replace one file, the last wins.
func Replace(path string, write func(io.Writer) error) error {
	return replace(path, os.Rename, write)
}

// ReplaceKeepingOld is Replace, but first gives the file that stands there another name,
// which ends in ".corrupt-" and the time. If the replacement fails, the file keeps its
// own name alone.
func ReplaceKeepingOld(path string, write func(io.Writer) error) error {
	return replace(path, renameKeepingOld, write)
}

func replace(path string, rename func(temp, target string) error, write func(io.Writer) error) error {
	target, err := Target(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	// Opened first, so that a folder that cannot be synced shows before
	// anything is replaced.
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	defer folder.Close()
	if err := swapIn(target, rename, write); err != nil {
		return err
	}
	return syncFolder(folder)
}

// swapIn writes a temporary file and renames it to target.
func swapIn(target string, rename func(temp, target string) error, write func(io.Writer) error) error {
	temp, err := createTemp(target)
	if err != nil {
		return err
	}
	defer temp.Close() // a sweep takes a closed temporary file for an abandoned one
	err = write(temp)
	if err == nil {
		err = temp.Sync()
	}
	if err == nil {
		err = beforeRename(temp)
	}
	if err == nil {
		err = rename(temp.Name(), target)
	}
	if err != nil {
		temp.Close()
		os.Remove(temp.Name())
	}
	return err
}

// renameKeepingOld renames temp to target, where the old file gets another name first.
func renameKeepingOld(temp, target string) error {
	undo, err := keepAside(target)
	if err != nil {
		return fmt.Errorf("move the unreadable file aside: %w", err)
	}
	if err = os.Rename(temp, target); err != nil {
		undo()
	}
	return err
}

// AsideTime returns the part of a file's name that tells when it was set aside: the
// present time in UTC, to the nanosecond, without characters that some file system
// forbids.
func AsideTime() string { return time.Now().UTC().Format("20060102T150405.000000000Z") }

// keepAside gives the file at target a second name, so that replacing it loses
// nothing; where the file system has no hard links it renames it. Without a file
// there is nothing to keep.
func keepAside(target string) (undo func(), err error) {
	stem := target + ".corrupt-" + AsideTime()
	for i := range 100 {
		kept := stem
		if i > 0 {
			kept = fmt.Sprintf("%s-%d", stem, i)
		}
		err = os.Link(target, kept)
		switch {
		case err == nil:
			return func() { os.Remove(kept) }, nil
		case errors.Is(err, fs.ErrNotExist):
			return func() {}, nil
		case errors.Is(err, fs.ErrExist):
			continue
		}
		err = os.Rename(target, kept)
		return func() { os.Rename(kept, target) }, err
	}
	return nil, err
}

// syncFolder makes a rename in a folder durable, where the system can.
func syncFolder(folder *os.File) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	err := folder.Sync()
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
