//go:build !nosqlite

// Shared: processes whose clocks differ or are set.

package ratelimit

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// Limiters whose wall clocks differ: what they admit together in any minute is never over
// the quota, and nobody waits for longer than a minute, nor for less than it should.
func TestSharedClocksDiffer(t *testing.T) {
	t.Parallel()
	const limit = 10
	for _, skew := range []time.Duration{
		time.Second, time.Minute, time.Hour, 24 * time.Hour,
		-time.Second, -time.Minute, -time.Hour, -24 * time.Hour,
	} {
		// In a bubble there is no clock of the machine, so the wall clock is all they have.
		t.Run(fmt.Sprintf("%v, by the wall clock", skew), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			synctest.Test(t, func(t *testing.T) {
				a, b := openSkewed(t, path, 0, limit), openSkewed(t, path, skew, limit)
				defer a.Close()
				defer b.Close()
				var admitted []time.Time
				for step := range 200 {
					rl := a
					if step%3 == 0 {
						rl = b
					}
					if r, d := rl.Reserve("m", 1, 1); r != nil {
						admitted = append(admitted, time.Now())
						r.Commit(2, 2)
					} else if d.RetryAfter > time.Minute+1 || d.RetryAfter <= 0 {
						t.Fatalf("RetryAfter is %v", d.RetryAfter)
					}
					time.Sleep(time.Duration(1+step*7%11) * 300 * time.Millisecond)
				}
				// A difference that cannot be told from the time between two looks at the
				// file does harm, as much as it is.
				slack := time.Duration(0)
				if skew > 0 && skew < time.Minute {
					slack = skew
				}
				checkMinutes(t, admitted, limit, time.Minute-slack)
				if len(admitted) < 3*limit {
					t.Errorf("%d were admitted, want far more", len(admitted))
				}
			})
		})
		t.Run(fmt.Sprintf("%v, with the machine's clock", skew), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			a, b := openSkewed(t, path, 0, limit), openSkewed(t, path, skew, limit)
			defer a.Close()
			defer b.Close()
			if a.ledger.log.Clock().Boot == "" {
				t.Skip("this system has no clock that processes share")
			}
			for i := range limit {
				if r, d := []*RateLimiter{a, b}[i%2].Reserve("m", 1, 1); r == nil {
					t.Fatalf("denied: %+v", d)
				}
			}
			c := openSkewed(t, path, -skew, limit) // that has seen nothing of it
			defer c.Close()
			for name, rl := range map[string]*RateLimiter{"a": a, "b": b, "c": c} {
				d := rl.Decide("m", 1)
				if d.Allowed || d.RetryAfter > time.Minute+1 || d.RetryAfter < 50*time.Second {
					t.Errorf("%s decides %+v, want a denial for nearly a minute", name, d)
				}
			}
			// All of them know to the millisecond when the first leaves.
			first := a.Decide("m", 1).RetryAfter
			for _, rl := range []*RateLimiter{b, c} {
				if off := rl.Decide("m", 1).RetryAfter - first; off > time.Second || off < -10*time.Second {
					t.Errorf("another limiter waits %v longer", off)
				}
			}
		})
	}
}

// openSkewed is NewWithSQLiteConfig for a limiter whose wall clock is ahead by skew.
func openSkewed(t *testing.T, path string, skew time.Duration, limit int) *RateLimiter {
	t.Helper()
	cfg := Config{Shared: true, Quotas: map[string]ModelQuota{"m": {MaxRPM: limit}}}
	rl, err := newLimiter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rl.clock = clock.Clock{Wall: wallAhead(skew)}
	rl.clock.Sync()
	if err := openLedger(rl, path, cfg); err != nil {
		t.Fatal(err)
	}
	return rl
}

// checkMinutes looks for more admissions than the limit within a time, its ends included.
func checkMinutes(t *testing.T, admitted []time.Time, limit int, within time.Duration) {
	t.Helper()
	for i := range admitted {
		if j := i + limit; j < len(admitted) && admitted[j].Sub(admitted[i]) <= within {
			t.Errorf("%d admissions within %v", limit+1, admitted[j].Sub(admitted[i]))
		}
	}
}

// The wall clock is set while a limiter runs.
func TestSharedClockIsSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		path := filepath.Join(t.TempDir(), "state.db")
		a, b := openSkewed(t, path, 0, 5), openSkewed(t, path, 0, 5)
		for range 5 {
			a.RecordUsage("m", 1, 1)
		}
		b.Stats("m")
		for _, rl := range []*RateLimiter{a, b} {
			rl.mu.Lock()
			rl.clock.Wall = wallAhead(step)
			rl.clock.Compare()
			rl.mu.Unlock()
		}
		a.RecordUsage("other", 1, 1)
		c := openSkewed(t, path, step, 5)
		for name, rl := range map[string]*RateLimiter{"a": a, "b": b, "c": c} {
			if d := rl.Decide("m", 1); d.Allowed || d.RetryAfter > time.Minute+1 {
				t.Errorf("set by %v: %s decides %+v", step, name, d)
			}
			if err := rl.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
