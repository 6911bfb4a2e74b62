//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package ratelimit

import (
	"errors"
	"fmt"
)

type lifeLock struct{}

func holdLife(string) (*lifeLock, error) {
	return nil, fmt.Errorf("hold life: %w", errors.ErrUnsupported)
}

func (*lifeLock) release() error { return nil }

func lifeOf(string) liveness { return lifeUnknown }

func buryLife(string) {}
