package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// NewOverFake returns a limiter that shares a log in memory, and the number that it has there.
func NewOverFake(fake *sharedlogtest.Fake, cfg Config) (rl *RateLimiter, process int64, err error) {
	cfg.Shared = true
	if rl, err = newLimiter(cfg); err != nil {
		return nil, 0, err
	}
	err = shareLog(rl, cfg, func(id int64, ttl time.Duration, _ func(error)) (sharedlog.Log, error) {
		process = id
		return fake.Open(id, rl.span(), ttl), nil
	})
	return rl, process, err
}
