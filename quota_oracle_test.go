//go:build !nosqlite

// Shared: what the processes say of quotas, against one limiter alone.

package ratelimit_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
)

// Three limiters of a file change quotas, tell the account's limits and take quotas back. Each of
// them then has the quotas of one limiter alone, and decides as that does.
func TestSharedQuotasAreThoseOfOneLimiter(t *testing.T) {
	t.Parallel()
	for seed := range times(4, 1, 500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			setup := sharedSetup(seed, filepath.Join(t.TempDir(), "state.db"))
			synctest.Test(t, func(t *testing.T) { sharedoracle.New(t, setup).RunQuotas(200, true) })
		})
	}
}

// The same where steps conflict and the log fails: what was said meanwhile of the same model by
// another origin stays.
func TestSharedQuotasAreThoseOfOneLimiterWhateverConflicts(t *testing.T) {
	overFakes(t, times(12, 4, 1000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		s := sharedoracle.New(t, fakeSetup(seed, fake))
		makeQuotaTrouble(s, fake)
		s.RunQuotas(200, false)
	})
}
