//go:build !linux && !nosqlite

package ratelimit_test

import (
	"errors"
	"os"
)

func sharedStop(*os.Process) error     { return errors.ErrUnsupported }
func sharedContinue(*os.Process) error { return errors.ErrUnsupported }
