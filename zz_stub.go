package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/tokens"

func (g *slots) refusedLocked(instant int64, d *Decision)      {}
func (g *slots) settledLocked(estimate, used tokens.Count)     {}
func (rl *RateLimiter) providerOfRLocked(name string) Provider { return "" }
