// Money: lives of limiters with budgets, in memory, in files, and in a store.

package ratelimit_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/money"
)

// restart closes a limiter, and opens it again with what its store has.
func (s *spendLife) restart() {
	i, rl := s.any()
	s.note("%d: restart", i)
	if s.private {
		if err := rl.Persist(); err != nil {
			s.Fatal(err)
		}
	}
	for _, c := range s.calls {
		c.settled = c.settled || c.by == i
	}
	if err := rl.Close(); err != nil {
		s.Fatal(err)
	}
	cfg := s.cfg
	cfg.Prices = s.prices
	cfg.Quotas, cfg.Pools, cfg.Providers = nil, nil, []ratelimit.Provider{ratelimit.ProviderLocal}
	s.limiters[i] = s.reopen(cfg) // which waits for others to say what time it is
	s.passed()
	for _, books := range []map[string]*spendBook{s.models, s.pools} {
		for _, book := range books {
			book.audits[i] = ratelimit.AuditEntry{}
		}
	}
}

func (s *spendLife) compare() {
	for i, rl := range s.limiters {
		for name, book := range s.models {
			s.compareBook(fmt.Sprintf("limiter %d: model %s", i, name), rl.Stats(name), book)
		}
		for name, book := range s.pools {
			s.compareBook(fmt.Sprintf("limiter %d: pool %s", i, name), rl.PoolStats(name), book)
		}
		audit := rl.Audit() // calls that have expired just now are settled
		for name, book := range s.models {
			s.compareAudit(fmt.Sprintf("limiter %d: model %s", i, name), audit.Models[name], book.audits[i])
		}
		for name, book := range s.pools {
			s.compareAudit(fmt.Sprintf("limiter %d: pool %s", i, name), audit.Pools[name], book.audits[i])
		}
	}
}

func (s *spendLife) compareBook(what string, got ratelimit.ModelStats, book *spendBook) {
	s.Helper()
	day, month := book.spent(s.now)
	if got.SpendDay != day || got.SpendMonth != month || got.MaxSpendPerDay != book.quota.MaxSpendPerDay ||
		got.MaxSpendPerMonth != book.quota.MaxSpendPerMonth {
		s.fail("%s: %v of %v a day and %v of %v a month, want %v and %v of %+v", what, got.SpendDay, got.MaxSpendPerDay,
			got.SpendMonth, got.MaxSpendPerMonth, day, month, book.quota)
	}
}

func (s *spendLife) compareAudit(what string, got, want ratelimit.AuditEntry) {
	s.Helper()
	if got != want {
		s.fail("%s: audit\n%+v, want\n%+v", what, got, want)
	}
	sum := func(of func(ratelimit.AuditSum) int) bool {
		return of(got.Reserved) == of(got.Estimated)+of(got.Released)+of(got.Expired)+of(got.Open)
	}
	if !sum(func(s ratelimit.AuditSum) int { return s.Calls }) || !sum(func(s ratelimit.AuditSum) int { return s.InputTokens }) ||
		!sum(func(s ratelimit.AuditSum) int { return s.OutputTokens }) || !sum(func(s ratelimit.AuditSum) int { return int(s.Money) }) {
		s.fail("%s: the audit does not add up: %+v", what, got)
	}
}

func (s *spendLife) play(steps int) {
	s.now = time.Now()
	for range steps {
		switch n := s.random.IntN(100); {
		case n < 28:
			s.reserve(s.draw())
		case n < 34:
			s.reserve(s.draw(), s.draw(), s.draw())
		case n < 52:
			s.settle()
		case n < 60:
			req := s.draw()
			_, rl := s.any()
			s.check(rl.DecideRequest(req), req)
		case n < 70:
			s.record()
		case n < 90:
			s.sleep()
		case n < 97:
			s.change()
		default:
			s.restart()
		}
		if s.random.IntN(3) == 0 {
			s.compare()
		}
	}
	s.compare()
	for _, rl := range s.limiters {
		limitertest.Close(s.T, rl)
	}
}

func TestSpendAgreesWithBooks(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for seed := range uint64(times(4, 2, 2000)) {
			t.Run(fmt.Sprint(backend, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSpendLife(t, seed)
					s.private, s.cfg.Backend, s.cfg.FilePath = true, backend, filepath.Join(t.TempDir(), "state")
					s.reopen = func(cfg ratelimit.Config) *ratelimit.RateLimiter {
						rl := newLimiterWith(t, cfg)
						if err := rl.Load(); err != nil {
							t.Fatal(err)
						}
						return rl
					}
					s.limiters = append(s.limiters, s.reopen(s.cfg))
					s.play(350)
				})
			})
		}
	}
}

// over has a life of three limiters of a store.
func (s *spendLife) over(open func(cfg ratelimit.Config) *ratelimit.RateLimiter, steps int) {
	s.reopen, s.cfg.LeaseTTL = open, 100_000*time.Hour
	for range 3 {
		s.limiters = append(s.limiters, open(s.cfg))
	}
	s.play(steps)
}

func TestSpendOfStoreAgreesWithBooks(t *testing.T) {
	overFakes(t, times(3, 1, 2000), func(t *testing.T, seed int, fake *fakestore.Fake) {
		s := newSpendLife(t, uint64(seed))
		s.over(func(cfg ratelimit.Config) *ratelimit.RateLimiter {
			rl, _, err := ratelimit.NewOverFake(fake, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		}, times(300, 60, 300))
	})
}

// The same over a file, which each limiter looks at once a second: within hours, in which a month
// ends.
func TestSpendOfSharedFileAgreesWithBooks(t *testing.T) {
	needSQLite(t)
	t.Parallel()
	for seed := range uint64(times(3, 1, 500)) {
		path := filepath.Join(t.TempDir(), fmt.Sprint(seed))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2000, 1, 31, 23, 0, 0, 0, time.UTC)))
				s := newSpendLife(t, seed)
				s.longest = 10 * time.Minute
				s.over(func(cfg ratelimit.Config) *ratelimit.RateLimiter {
					cfg.Shared = true
					rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
					if err != nil {
						t.Fatal(err)
					}
					return rl
				}, times(200, 40, 200))
			})
		})
	}
}

// A budget is kept by whoever comes after: what is spent is not forgotten with the usage.
func TestSpendIsKeptUntilItsMonthEnds(t *testing.T) {
	price := map[string]money.Price{"*": {Input: money.Dollar}}
	budget := ratelimit.ModelQuota{MaxSpendPerMonth: 100, MaxSpendPerDay: 100}
	for _, tt := range []struct {
		name   string
		forget func(t *testing.T, rl *ratelimit.RateLimiter)
	}{
		{"Reset", func(_ *testing.T, rl *ratelimit.RateLimiter) { rl.Reset("m") }},
		{"Reset of all", func(_ *testing.T, rl *ratelimit.RateLimiter) { rl.Reset("") }},
		{"an idle week", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			stop := rl.BackgroundPrune(time.Hour)
			time.Sleep(7 * 24 * time.Hour)
			stop()
			rl.AllStats()
		}},
		{"eviction", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			time.Sleep(25 * time.Hour)
			for i := range 10 {
				rl.RecordUsage(fmt.Sprint("other ", i), 1, 0)
				time.Sleep(25 * time.Hour)
			}
		}},
		{"Load", func(t *testing.T, rl *ratelimit.RateLimiter) {
			if err := rl.Load(); err != nil {
				t.Fatal(err)
			}
		}},
		{"SetQuota", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			rl.SetQuota("*", ratelimit.ModelQuota{})
			rl.SetQuota("*", budget)
		}},
		{"another zone", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			zoned := budget
			zoned.DayZone = "Asia/Tokyo"
			rl.SetQuota("*", zoned)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Prices: price, MaxModels: 3, Quotas: map[string]ratelimit.ModelQuota{"*": budget}})
				rl.RecordUsage("m", 99, 0)
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				rl.RecordUsage("m", 1, 0)
				tt.forget(t, rl)
				if d := rl.Decide("m", 1); d.Allowed || d.Code != ratelimit.DecisionSpendLimit {
					t.Errorf("a month's money is spent, and yet %+v", d)
				}
				if s := rl.Stats("m"); s.SpendMonth != 100 {
					t.Errorf("spent is %v, want %v", s.SpendMonth, money.Amount(100))
				}
				time.Sleep(time.Until(time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC)))
				if d := rl.Decide("m", 1); !d.Allowed {
					t.Errorf("another month: %+v", d)
				}
			})
		})
	}
}
