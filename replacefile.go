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
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	target, err := resolveTarget(path)
	if err != nil {
		return err
	}
	err = swapIn(target, aside, write)
	if errors.Is(err, fs.ErrNotExist) {
		// Another process that just started may have taken the temporary file
		// for an abandoned one, in the moment before it was locked.
		err = swapIn(target, aside, write)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// swapIn writes a temporary file and renames it over target.
func swapIn(target string, aside bool, write func(io.Writer) error) error {
	temp, err := writeTemp(target, write)
	if err != nil {
		return err
	}
	kept := ""
	if aside {
		if kept, err = keepAside(target); err != nil {
			os.Remove(temp)
			return err
		}
	}
	if err := os.Rename(temp, target); err != nil {
		os.Remove(temp)
		if kept != "" {
			os.Remove(kept)
		}
		return err
	}
	return nil
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

// writeTemp writes and syncs a temporary file beside target and returns its
// name. The file is locked while it is written, so that sweepTemps knows it from
// one that a crash left behind.
func writeTemp(target string, write func(io.Writer) error) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(target), tempPrefix(target)+"*")
	if err != nil {
		return "", err
	}
	lockTemp(f)
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
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
		if !entry.Type().IsRegular() || !strings.HasPrefix(entry.Name(), tempPrefix(target)) {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		if info, err := entry.Info(); err == nil && abandoned(name, info) {
			os.Remove(name)
		}
	}
}

// keepAside gives the file at target a second name, so that replacing it loses
// nothing; where the file system has no hard links it renames it. It returns ""
// when there is no file.
func keepAside(target string) (string, error) {
	stem := target + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	for i := range 100 {
		kept := stem
		if i > 0 {
			kept = fmt.Sprintf("%s-%d", stem, i)
		}
		err := os.Link(target, kept)
		switch {
		case err == nil:
			return kept, nil
		case errors.Is(err, fs.ErrNotExist):
			return "", nil
		case errors.Is(err, fs.ErrExist):
			continue
		}
		if err := os.Rename(target, kept); err != nil {
			return "", fmt.Errorf("move the unreadable file aside: %w", err)
		}
		return "", nil
	}
	return "", fmt.Errorf("move the unreadable file aside: %s: %w", stem, fs.ErrExist)
}

// syncFolder makes a rename in dir durable, where the system can.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
