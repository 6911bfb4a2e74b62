package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/state"

// foundsRLocked returns what was found of the models' limits, as stores see it.
func (rl *RateLimiter) foundsRLocked() map[string]state.Found { return nil }

// takeFoundsLocked takes over what a file has of that.
func (rl *RateLimiter) takeFoundsLocked(map[string]state.Found) {}
