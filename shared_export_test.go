// Shared: what tests of behaviour use of the inside, a limiter over a log in memory.

package ratelimit

import (
	"database/sql"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// NewOverFake returns a limiter that shares a log in memory, and the number that it has there.
func NewOverFake(fake *sharedlogtest.Fake, cfg Config) (rl *RateLimiter, process int64, err error) {
	cfg.Shared = true
	if rl, err = newLimiter(cfg); err != nil {
		return nil, 0, err
	}
	err = shareLog(rl, cfg, func(o sharedlog.Options) (sharedlog.Log, error) {
		process = o.Process
		return fake.Open(o.Process, o.Span, o.LeaseTTL), nil
	})
	if err == nil {
		rl.teller.begin()
	}
	return rl, process, err
}

// sqliteNumber returns the integer that a query of a database yields.
func sqliteNumber(t *testing.T, path, query string, args ...any) (n int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
