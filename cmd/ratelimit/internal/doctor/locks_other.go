//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package doctor

import "errors"

func lockHolds(string) (bool, error) { return false, errors.ErrUnsupported }
