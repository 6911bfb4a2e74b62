//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package fsx

import (
	"errors"
	"os"
)

const openNoFollow = 0

func lockFile(*os.File) error { return errors.ErrUnsupported }

func tryLockFile(*os.File) (ok bool, err error) { return false, errors.ErrUnsupported }

func unlockFile(*os.File) error { return errors.ErrUnsupported }
