package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/test/fakestore"

// NewOverFake returns a limiter over a store in memory, and the number of its process there.
func NewOverFake(s *fakestore.Fake, cfg Config) (rl *RateLimiter, process int64, err error) {
	cfg.Store = s
	if rl, err = NewWithConfig(cfg); err == nil {
		process = rl.shared.process
	}
	return rl, process, err
}
