package ratelimit

import (
	"io"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/yamlstate"
)

// persistYAML writes the state file. ioMu must be held.
func (rl *RateLimiter) persistYAML() error {
	if rl.filePath == "" {
		return errNoFile
	}
	s, done := rl.snapshot()
	defer done()
	replace := fsx.Replace
	if rl.suspect {
		replace = fsx.ReplaceKeepingOld
	}
	err := replace(rl.filePath, func(w io.Writer) error {
		return yamlstate.Encode(w, s.stored(), time.Now())
	})
	if err == nil {
		rl.suspect = false
	}
	return err
}

// loadYAML reads the state file; nil where there is none. ioMu must be held.
func (rl *RateLimiter) loadYAML() (*snapshot, error) {
	if rl.filePath == "" {
		return nil, errNoFile
	}
	s, err := yamlstate.ReadFile(rl.filePath)
	rl.suspect = err != nil
	if err != nil || s == nil {
		return nil, err
	}
	return snapshotOf(s), nil
}
