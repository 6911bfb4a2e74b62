// Burst across a restart, and shared by limiters of one file.

package ratelimit_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// What was started before a restart counts after it, in both backends.
func TestPaceAcrossRestart(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for _, tt := range []struct {
			name  string
			calls int           // before, one after the other as soon as they may
			pause time.Duration // while nothing runs
			then  int           // that start at once afterwards
		}{
			{"nothing before", 0, 0, 10},
			{"a part of the burst", 4, 0, 6},
			{"the burst", 10, 0, 0},
			{"busy for long", 300, 0, 0},
			{"busy for some time, and a short pause", 55, 3 * time.Second, 3},
			{"busy for long, and idle", 300, 2 * time.Minute, 10},
		} {
			t.Run(backend+"/"+tt.name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				synctest.Test(t, func(t *testing.T) {
					cfg := ratelimit.Config{Backend: backend, FilePath: path, Quotas: map[string]ratelimit.ModelQuota{
						"m": {MaxRPM: 60, Burst: 10 * time.Second},
					}}
					rl := newLimiterWith(t, cfg)
					for range tt.calls {
						if _, err := rl.Acquire(t.Context(), "m", 0, 0); err != nil {
							t.Fatal(err)
						}
					}
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
					if err := rl.Close(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.pause)
					// The quota comes from the file.
					cfg.Quotas, cfg.Providers = nil, []ratelimit.Provider{ratelimit.ProviderLocal}
					again := newLimiterWith(t, cfg)
					defer again.Close()
					if err := again.Load(); err != nil {
						t.Fatal(err)
					}
					if q := again.Quotas["m"]; q != (ratelimit.ModelQuota{MaxRPM: 60, Burst: 10 * time.Second}) {
						t.Errorf("quota %+v", q)
					}
					started := 0
					for again.CanSend("m", 0) {
						again.RecordUsage("m", 0, 0)
						started++
					}
					if started != tt.then {
						t.Errorf("%d calls start at once, want %d: %+v", started, tt.then, again.Decide("m", 0))
					}
				})
			})
		}
	}
}

// Several limiters that share a file keep one pace: never more than the burst and what
// the rate gives start in any time, and hardly less.
func TestPaceIsShared(t *testing.T) {
	needSQLite(t)
	t.Parallel()
	const (
		rpm   = 120
		burst = 5 * time.Second
		runs  = 4 * time.Minute / min(racetest.Factor, 4)
	)
	path := filepath.Join(t.TempDir(), "shared.db")
	synctest.Test(t, func(t *testing.T) {
		var started []time.Time
		open := func() *ratelimit.RateLimiter {
			return newLimiterWith(t, ratelimit.Config{Backend: "sqlite", FilePath: path, Shared: true, Quotas: map[string]ratelimit.ModelQuota{
				"m": {MaxRPM: rpm, MaxTPM: 1000 * rpm, Burst: burst},
			}})
		}
		limiters := []*ratelimit.RateLimiter{open(), open(), open()}
		random := rand.New(rand.NewPCG(1, 2))
		begin := time.Now()
		for time.Since(begin) < runs {
			i := random.IntN(len(limiters))
			if random.IntN(100) == 0 { // one leaves, and another comes
				limiters[i].Close()
				limiters[i] = open()
			}
			r, d := limiters[i].Reserve("m", 1000, 0)
			if d.Allowed {
				started = append(started, time.Now())
				r.Commit(random.IntN(1000), 0)
				continue
			}
			if !strings.Contains(d.Reason, "per minute") && !strings.HasPrefix(d.Reason, "pace: ") {
				t.Fatalf("%+v", d)
			}
			time.Sleep(min(d.RetryAfter, 50*time.Millisecond))
		}
		for _, rl := range limiters {
			rl.Close()
		}
		for i, from := range started {
			for n, to := range started[i:] {
				if most := int(burst.Seconds()*rpm/60+to.Sub(from).Seconds()*rpm/60) + 1; n+1 > most {
					t.Fatalf("%d calls in %v, at most %d may start", n+1, to.Sub(from), most)
				}
			}
		}
		if want := int(runs.Minutes() * rpm * 95 / 100); len(started) < want {
			t.Errorf("%d calls in %v, want at least %d", len(started), runs, want)
		}
		t.Logf("%d calls", len(started))
	})
}
