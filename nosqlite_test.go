//go:build nosqlite

// The library without SQLite.

package ratelimit_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Everything that needs SQLite says so, and leaves nothing behind.
func TestWithoutSQLite(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "folder", "state.db")
	yaml := filepath.Join(t.TempDir(), "state.yaml")
	rl := newLimiterWith(t, ratelimit.Config{FilePath: yaml})
	if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	shared := ratelimit.Config{Backend: "sqlite", FilePath: path, Shared: true}
	for name, open := range map[string]func() (*ratelimit.RateLimiter, error){
		"NewWithSQLite":               func() (*ratelimit.RateLimiter, error) { return ratelimit.NewWithSQLite(path) },
		"NewWithSQLiteConfig":         func() (*ratelimit.RateLimiter, error) { return ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{}) },
		"NewWithSQLiteConfig, shared": func() (*ratelimit.RateLimiter, error) { return ratelimit.NewWithSQLiteConfig(path, shared) },
		"NewWithConfig": func() (*ratelimit.RateLimiter, error) {
			return ratelimit.NewWithConfig(ratelimit.Config{Backend: "sqlite", FilePath: path})
		},
		"NewWithConfig, shared": func() (*ratelimit.RateLimiter, error) { return ratelimit.NewWithConfig(shared) },
		"MigrateYAMLToSQLite":   func() (*ratelimit.RateLimiter, error) { return nil, ratelimit.MigrateYAMLToSQLite(yaml, path) },
	} {
		rl, err := open()
		if !errors.Is(err, ratelimit.ErrNoSQLite) || rl != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
