//go:build !nosqlite

package ratelimit_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Calls in classes over limiters of one file: see TestSchedulesEnd.
func TestSharedFileSchedulesEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(times(2, 1, 500)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			synctest.Test(t, func(t *testing.T) {
				playSchedule(t, seed, 3, func(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
					return openShared(t, path, func(c *ratelimit.Config) {
						c.Quotas, c.Classes, c.LeaseTTL = cfg.Quotas, cfg.Classes, cfg.LeaseTTL
					})
				})
			})
		})
	}
}
