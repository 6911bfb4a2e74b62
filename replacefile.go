package ratelimit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var errNotRegular = errors.New("not a regular file")

// replaceFile writes a file so that a crash at any moment leaves the old one or
// the new one: a temporary file beside it, synced, renamed over it, and the
// folder synced. A symbolic link is followed, and stays. With aside, a file that
// stands there is first kept under another name.
func replaceFile(path string, aside bool, write func(io.Writer) error) error {
	target, err := resolveTarget(path)
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
	if err := swapIn(target, aside, write); err != nil {
		return err
	}
	return syncFolder(folder)
}

// swapIn writes a temporary file and renames it over target.
func swapIn(target string, aside bool, write func(io.Writer) error) error {
	temp, err := createTemp(target)
	if err != nil {
		return err
	}
	defer temp.Close() // only now may the file be taken for an abandoned one
	err = write(temp)
	if err == nil {
		err = temp.Sync()
	}
	if err == nil {
		err = beforeRename(temp)
	}
	if err == nil {
		err = moveIn(temp.Name(), target, aside)
	}
	if err != nil {
		temp.Close()
		os.Remove(temp.Name())
	}
	return err
}

// moveIn renames temp to target. With aside, a failure leaves the file that
// stood there under its own name alone.
func moveIn(temp, target string, aside bool) error {
	undo := func() {}
	if aside {
		var err error
		if undo, err = keepAside(target); err != nil {
			return fmt.Errorf("move the unreadable file aside: %w", err)
		}
	}
	err := os.Rename(temp, target)
	if err != nil {
		undo()
	}
	return err
}

// resolveTarget follows symbolic links to the file that is to be replaced,
// which need not exist but must be a regular file if it does.
func resolveTarget(path string) (string, error) {
	for range 40 {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(dir, filepath.Base(path))
		}
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, nil
		case err != nil:
			return "", err
		case info.Mode().IsRegular():
			return path, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", fmt.Errorf("%s: %w", path, errNotRegular)
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}

// createTemp creates a temporary file beside target, which sweepTemps leaves
// alone until it is closed.
func createTemp(target string) (*os.File, error) {
	for range 100 {
		f, err := os.CreateTemp(filepath.Dir(target), tempPrefix(target)+"*")
		if err != nil {
			return nil, err
		}
		if claimTemp(f) {
			return f, nil
		}
		// A sweep was faster. It removes the file.
		f.Close()
	}
	return nil, fmt.Errorf("create temporary file beside %s: removed by others", target)
}

func tempPrefix(target string) string { return "." + filepath.Base(target) + ".tmp-" }

// sweepTemps removes the temporary files that crashed writers of path left. What
// it cannot remove now, a later sweep will.
func sweepTemps(path string) {
	target, err := resolveTarget(path)
	if err != nil {
		return
	}
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && strings.HasPrefix(entry.Name(), tempPrefix(target)) {
			sweepTemp(filepath.Join(dir, entry.Name()))
		}
	}
}

// asideStamp is the part of a name that tells when a file was set aside.
func asideStamp() string { return time.Now().UTC().Format("20060102T150405.000000000Z") }

// keepAside gives the file at target a second name, so that replacing it loses
// nothing; where the file system has no hard links it renames it. Without a file
// there is nothing to keep.
func keepAside(target string) (undo func(), err error) {
	stem := target + ".corrupt-" + asideStamp()
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
