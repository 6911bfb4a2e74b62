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
	if cfg.Shared {
		return errors.New("fields Store and Shared are both set, want one of them")
	}
	for _, is := range [...]struct{ field, value string }{
		{"FilePath", cfg.FilePath}, {"Backend", cfg.Backend}, {"Durability", cfg.Durability},
	} {
		if is.value != "" {
			return fmt.Errorf("fields Store and %s %q are both set, want one of them", is.field, is.value)
		}
	}
	return nil
}
