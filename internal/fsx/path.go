package fsx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotRegular says that a path leads to a folder, a device, a pipe or, where links are
// not followed, a symbolic link.
var ErrNotRegular = errors.New("not a regular file")

// CheckPath returns an error for a path that no file can have: an empty one, and one with
// a zero byte. It does not look at the file system.
func CheckPath(path string) error {
	if path == "" || strings.ContainsRune(path, 0) {
		return fmt.Errorf("path is %q", path)
	}
	return nil
}

// Absolute makes path independent of the working directory, which the program may change
// later. Where the working directory is not known, it returns path as it is.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// Target follows symbolic links to the file that is to be replaced. That file need not
// exist; where it does and is not a regular file, the error is ErrNotRegular.
func Target(path string) (string, error) {
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
			return "", fmt.Errorf("%s: %w", path, ErrNotRegular)
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
