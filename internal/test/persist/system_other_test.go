//go:build !linux

// What tests ask of the system, where it cannot do it.

package persist

import (
	"errors"
	"os"
)

func sharedStop(*os.Process) error     { return errors.ErrUnsupported }
func sharedContinue(*os.Process) error { return errors.ErrUnsupported }

func becomeOnThisThread(int) bool { return false }
