//go:build !nosqlite

package ratelimit

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

func openHostile(t *testing.T, path string, change ...func(*Config)) *RateLimiter {
	t.Helper()
	cfg := Config{Shared: true, Providers: []Provider{ProviderLocal}}
	for _, c := range change {
		c(&cfg)
	}
	rl, err := NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// lifePath is the life file of a limiter of the database at a path.
func lifePath(path string, rl *RateLimiter) string {
	return fmt.Sprintf("%s.%016x.life", path, rl.ledger.id)
}

func wantLife(t *testing.T, path string, want fsx.Liveness) {
	t.Helper()
	if got := fsx.LivenessOf(path); got != want {
		t.Errorf("the owner of %s is %v, want %v", filepath.Base(path), got, want)
	}
}

func withQuota(model string, q ModelQuota) func(*Config) {
	return func(cfg *Config) {
		if cfg.Quotas == nil {
			cfg.Quotas = make(map[string]ModelQuota)
		}
		cfg.Quotas[model] = q
	}
}

// A program that only asks, as one that shows the state, or is always denied, must not
// remember all that others ever did.
func TestSharedWhoOnlyAsksForgets(t *testing.T) {
	for _, how := range []string{"asks", "is denied"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			synctest.Test(t, func(t *testing.T) {
				busy, asks := openHostile(t, path), openHostile(t, path, withQuota("never", ModelQuota{MaxTPM: 1}))
				for range 45 {
					for range 60 {
						busy.RecordUsage("m", 1, 1)
					}
					time.Sleep(30 * time.Second)
					if how == "asks" {
						asks.Stats("m")
					} else if r, _ := asks.Reserve("never", 2, 0); r != nil {
						t.Fatal("admitted")
					}
				}
				if n := len(asks.ledger.tail.Live()); n > 2000 {
					t.Errorf("remembers %d events", n)
				}
				if n := reflect.ValueOf(asks.ledger.tail).FieldByName("events").Cap(); n > 5000 {
					t.Errorf("keeps room for %d events", n)
				}
			})
		})
	}
}
