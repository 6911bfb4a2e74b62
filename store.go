package ratelimit

import (
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Store makes limiters on many machines one: those whose stores lead to the same place decide as
// one limiter would that did all of it. Module redisstore has one for Redis and Valkey. Only
// modules of this library can implement it, because its method speaks of an internal package.
//
// A Store starts nothing before a limiter opens it. It may serve several limiters, and is safe for
// concurrent use. Closing a limiter ends that limiter's part.
type Store = store.Store

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
