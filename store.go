package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// Store makes limiters on many machines one: those whose stores lead to the same place decide as
// one limiter would that did all of it. Module redisstore has one for Redis and Valkey. Only
// modules of this library can implement it, because its method speaks of an internal package.
//
// A Store starts nothing before a limiter opens it. It may serve several limiters, and is safe for
// concurrent use. Closing a limiter ends that limiter's part.
type Store interface {
	// OpenLog opens the log that the limiters share. The limiter closes it.
	OpenLog(ctx context.Context, options sharedlog.Options) (sharedlog.Remote, error)
}

// checkStore returns an error that names the fields of which one is too many.
func (cfg *Config) checkStore() error {
	if cfg.Store == nil {
		return nil
	}
	switch {
	case cfg.Shared:
		return errors.New("fields Store and Shared are both set, want one of them")
	case cfg.FilePath != "":
		return fmt.Errorf("fields Store and FilePath %q are both set, want one of them", cfg.FilePath)
	case cfg.Backend != "":
		return fmt.Errorf("fields Store and Backend %q are both set, want one of them", cfg.Backend)
	case cfg.Durability != "":
		return fmt.Errorf("fields Store and Durability %q are both set, want one of them", cfg.Durability)
	}
	return nil
}

func newWithStore(cfg Config) (*RateLimiter, error) {
	rl, err := newLimiter(cfg)
	if err != nil {
		return nil, err
	}
	if err := openStore(rl, cfg); err != nil {
		return nil, fmt.Errorf("new limiter: open store: %w", err)
	}
	rl.teller.begin()
	return rl, nil
}

// openStore makes a limiter one of those that share a store.
func openStore(rl *RateLimiter, cfg Config) error {
	return shareLog(rl, cfg, func(o sharedlog.Options) (sharedlog.Log, error) {
		log, err := cfg.Store.OpenLog(background, o)
		if err != nil {
			return nil, err
		}
		rl.clock.Skew = log.Skew
		rl.clock.Compare()
		return log, nil
	})
}
