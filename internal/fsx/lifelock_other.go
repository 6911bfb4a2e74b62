//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package fsx

import (
	"errors"
	"fmt"
)

// LifeLock stands for the lock of other systems: there is none here.
type LifeLock struct{}

// HoldLife returns an error that wraps errors.ErrUnsupported.
func HoldLife(string) (*LifeLock, error) {
	return nil, fmt.Errorf("lock life file: %w", errors.ErrUnsupported)
}

// Release returns nil.
func (*LifeLock) Release() error { return nil }

// LivenessOf returns Unknown.
func LivenessOf(string) Liveness { return Unknown }

// RemoveDead does nothing.
func RemoveDead(string) {}
