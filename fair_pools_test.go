// Pools: lives of limiters with pools, in memory, in files, and in a store.

package ratelimit_test

import (
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/persist"
)

// hasInvalid reports whether a pool has a quota that no file takes.
func (s *poolLife) hasInvalid() bool {
	for _, l := range s.pools {
		if l.invalid() {
			return true
		}
	}
	return false
}

// compare looks at all that the limiters say of the usage, and at what they must not show.
func (s *poolLife) compare() {
	for i, rl := range s.limiters {
		for _, name := range s.names {
			if diff := s.models[name].difference(rl.Stats(name), s.now); diff != "" {
				s.fail("limiter %d: model %s: %s", i, name, diff)
			}
		}
		names := slices.Sorted(maps.Keys(s.pools))
		for _, name := range names {
			if diff := s.pools[name].difference(rl.PoolStats(name), s.now); diff != "" {
				s.fail("limiter %d: pool %s: %s", i, name, diff)
			}
			if pool, ok := rl.Pool(name); !ok || pool.Quota != s.pools[name].quota || !slices.Equal(pool.Models, s.members[name]) {
				s.fail("limiter %d: pool %s is %+v, want %q %+v", i, name, pool, s.members[name], s.pools[name].quota)
			}
		}
		if got := slices.Collect(rl.Pools()); !slices.Equal(got, names) {
			s.fail("limiter %d has the pools %q, want %q", i, got, names)
		}
		for name, stats := range rl.IterPools() {
			if stats != rl.PoolStats(name) {
				s.fail("limiter %d: IterPools has another %q: %+v", i, name, stats)
			}
		}
		s.noPoolAmong("Models", rl.Models())
		s.noPoolAmong("AllStats", maps.Keys(rl.AllStats()))
		s.noPoolAmong("State", maps.Keys(rl.State))
		s.noPoolAmong("Quotas", maps.Keys(rl.Quotas))
	}
}

func (s *poolLife) noPoolAmong(where string, names iter.Seq[string]) {
	for name := range names {
		if name != "*" && !slices.Contains(poolModels, name) {
			s.fail("%s has %q", where, name)
		}
	}
}

func (s *poolLife) play(steps int) {
	s.now = time.Now()
	for range steps {
		switch n := s.random.IntN(100); {
		case n < 26:
			s.reserve(s.draw())
		case n < 34:
			s.reserveAll()
		case n < 48:
			s.settle()
		case n < 53:
			s.decide()
		case n < 61:
			s.record()
		case n < 66:
			s.arrive()
		case n < 87:
			s.sleep()
		case n < 89:
			s.reset()
		case n < 93:
			s.setPool()
		case n < 95:
			s.setQuota()
		case n < 96:
			s.cooldown()
		case n < 98 && !s.hasInvalid():
			s.restart()
		}
		if s.random.IntN(3) == 0 {
			s.compare()
		}
	}
	s.compare()
	for _, rl := range s.limiters {
		persist.Close(s.T, rl)
	}
}

// overFile has a life of one limiter with a file of its own.
func (s *poolLife) overFile(backend string, steps int) {
	s.private, s.cfg.Backend, s.cfg.FilePath = true, backend, filepath.Join(s.TempDir(), "state")
	s.reopen = func(cfg ratelimit.Config) *ratelimit.RateLimiter {
		rl := newLimiterWith(s.T, cfg)
		if err := rl.Load(); err != nil {
			s.Fatal(err)
		}
		return rl
	}
	s.limiters = append(s.limiters, s.reopen(s.cfg))
	s.play(steps)
}

// over has a life of three limiters of a store.
func (s *poolLife) over(open func(cfg ratelimit.Config) *ratelimit.RateLimiter, steps int) {
	s.reopen, s.cfg.LeaseTTL = open, 1000*time.Hour
	for range 3 {
		s.limiters = append(s.limiters, open(s.cfg))
	}
	s.play(steps)
}

func TestPoolsAgreeWithBooks(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for seed := range uint64(times(3, 2, 2000)) {
			t.Run(fmt.Sprint(backend, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newPoolLife(t, seed).overFile(backend, 400) })
			})
		}
	}
}

func TestPoolsOfStoreAgreeWithBooks(t *testing.T) {
	overFakes(t, times(5, 2, 2000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		s := newPoolLife(t, uint64(seed))
		s.over(func(cfg ratelimit.Config) *ratelimit.RateLimiter {
			rl, _, err := ratelimit.NewOverFake(fake, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		}, 300)
	})
}

func TestPoolsOfSharedFileAgreeWithBooks(t *testing.T) {
	needSQLite(t)
	t.Parallel()
	for seed := range uint64(times(3, 1, 500)) {
		path := filepath.Join(t.TempDir(), fmt.Sprint(seed))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPoolLife(t, seed)
				s.over(func(cfg ratelimit.Config) *ratelimit.RateLimiter {
					cfg.Shared = true
					rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
					if err != nil {
						t.Fatal(err)
					}
					return rl
				}, 200)
			})
		})
	}
}
