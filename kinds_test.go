// The kinds of limiters, for tests of what all of them do alike.

package ratelimit_test

import (
	"cmp"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// kind is where limiters keep what they count.
type kind string

const (
	alone  kind = "alone"  // each by itself, with a YAML file for Persist and Load
	inLog  kind = "store"  // in a log in memory
	inFile kind = "sqlite" // in a database that processes share
)

// place is where a test opens limiters of a kind. Those of one place share what they count, unless
// they are alone.
type place struct {
	kind
	path string          // of the file
	log  *fakestore.Fake // made with the first limiter
	late time.Duration   // until one of several limiters has heard of another at the latest
}

// eachKind runs a test for a place of each kind.
func eachKind(t *testing.T, run func(t *testing.T, p *place)) {
	t.Helper()
	for _, kind := range []kind{alone, inLog, inFile} {
		t.Run(string(kind), func(t *testing.T) {
			p := &place{kind: kind, path: filepath.Join(t.TempDir(), "state"), late: sharedHandOver}
			switch kind {
			case inFile:
				needSQLite(t)
			case alone:
				p.late = 0
			}
			run(t, p)
		})
	}
}

// inBubbles is eachKind with each test in a bubble.
func inBubbles(t *testing.T, run func(t *testing.T, p *place)) {
	t.Helper()
	eachKind(t, func(t *testing.T, p *place) {
		synctest.Test(t, func(t *testing.T) { run(t, p) })
	})
}

// onKinds is inBubbles for tests that show the race detector nothing in a file that it does not see
// in a log, which takes a tenth of the time.
func onKinds(t *testing.T, run func(t *testing.T, p *place)) {
	t.Helper()
	inBubbles(t, func(t *testing.T, p *place) {
		if p.kind == inFile && racetest.Factor > 1 {
			t.Skip("the race detector sees the log alone")
		}
		run(t, p)
	})
}

// open opens a limiter, until the test ends.
func (p *place) open(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	switch p.kind {
	case inLog:
		if p.log == nil {
			p.log = fakestore.New()
			p.log.Contact = time.Hour // an idle limiter seldom asks
		}
		return overStore(t, p.log, cfg)
	case inFile:
		cfg.Backend, cfg.Shared = "sqlite", true
		cfg.LeaseTTL = cmp.Or(cfg.LeaseTTL, time.Hour) // renewals would take most of the time
	}
	cfg.FilePath = p.path
	return openLimiter(t, cfg)
}

// pair opens two limiters that share what they count: one that is alone is both.
func (p *place) pair(t *testing.T, cfg ratelimit.Config) (one, other *ratelimit.RateLimiter) {
	t.Helper()
	one = p.open(t, cfg)
	if p.kind == alone {
		return one, one
	}
	return one, p.open(t, cfg)
}

// three opens three limiters that share what they count: one that is alone is all of them.
func (p *place) three(t *testing.T, cfg ratelimit.Config) []*ratelimit.RateLimiter {
	t.Helper()
	one, other := p.pair(t, cfg)
	if p.kind == alone {
		return []*ratelimit.RateLimiter{one, one, one}
	}
	return []*ratelimit.RateLimiter{one, other, p.open(t, cfg)}
}

// onPairs is onKinds with two limiters that share what they count. late is until one of them has
// heard of the other at the latest.
func onPairs(t *testing.T, cfg ratelimit.Config, run func(t *testing.T, one, other *ratelimit.RateLimiter, late time.Duration)) {
	t.Helper()
	onKinds(t, func(t *testing.T, p *place) {
		one, other := p.pair(t, cfg)
		run(t, one, other, p.late)
	})
}

// openLimiter opens a limiter of a configuration, with a YAML file unless that names another one or
// a store, until the test ends.
func openLimiter(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	if cfg.Store != nil {
		return overStore(t, cfg.Store, cfg)
	}
	rl := newLimiterWith(t, cfg)
	t.Cleanup(func() { rl.Close() })
	return rl
}
