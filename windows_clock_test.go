//go:build !nosqlite

// The windows of spend and of tokens on a wall clock that is set, in files that several limiters
// share.

package ratelimit

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

// windowed returns a configuration with both windows over a file.
func windowed(dir string, backend string) Config {
	return Config{
		FilePath: filepath.Join(dir, "state."+backend), Backend: backend,
		Quotas: map[string]ModelQuota{"m": {MaxSpendPerTenMinutes: 10 * money.Dollar, MaxTokensPerMonth: 20_000_000}},
		Prices: map[string]money.Price{"*": {Input: money.Dollar, Output: money.Dollar}},
	}
}

func openWindowed(t *testing.T, cfg Config) *RateLimiter {
	t.Helper()
	rl, err := NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

func mustDo(t *testing.T, what func() error) {
	t.Helper()
	if err := what(); err != nil {
		t.Fatal(err)
	}
}

// wantWindows checks what counts of the model.
func wantWindows(t *testing.T, what string, rl *RateLimiter, spent money.Amount, tokens int) {
	t.Helper()
	if s := rl.Stats("m"); s.SpendTenMinutes != spent || s.TokensMonth != tokens {
		t.Errorf("%s: %v in ten minutes and %d tokens in the month, want %v and %d", what, s.SpendTenMinutes, s.TokensMonth, spent, tokens)
	}
}

// A payment is the same in a file however often the clocks of its readers are corrected: none of
// two limiters that save in turns counts it twice.
func TestPaymentsAreTheSameAfterSteps(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Millisecond, -2 * time.Millisecond, time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := windowed(t.TempDir(), "sqlite")
				first, second := openWindowed(t, cfg), openWindowed(t, cfg)
				first.RecordUsage("m", 1_000_000, 0)
				second.RecordUsage("m", 2_000_000, 0)
				for _, do := range []func() error{first.Persist, second.Persist, first.Load, second.Load} {
					mustDo(t, do)
				}
				for i := range 5 {
					time.Sleep(time.Second)
					first.clock.Wall = wallAhead(by * time.Duration(i+1))
					second.clock.Wall = wallAhead(by * time.Duration(i+1))
					mustDo(t, first.Persist)
					mustDo(t, second.Persist)
					wantWindows(t, "the first", first, 3*money.Dollar, 3_000_000)
					wantWindows(t, "the second", second, 3*money.Dollar, 3_000_000)
				}
				if by > 0 && by < time.Second || by < 0 && by > -time.Second {
					third := openWindowed(t, cfg)
					mustDo(t, third.Load)
					wantWindows(t, "the third", third, 3*money.Dollar, 3_000_000)
				}
			})
		})
	}
}

// A call that was open at a Load gives back its charge, although the clock was corrected since.
func TestLoadKeepsPaymentsOfOpenCalls(t *testing.T) {
	for _, backend := range []string{"yaml", "sqlite"} {
		synctest.Test(t, func(t *testing.T) {
			rl := openWindowed(t, windowed(t.TempDir(), backend))
			r, _ := rl.Reserve("m", 5_000_000, 0)
			time.Sleep(time.Second)
			mustDo(t, rl.Persist)
			rl.clock.Wall = wallAhead(3 * time.Millisecond)
			time.Sleep(time.Second)
			mustDo(t, rl.Load)
			wantWindows(t, "loaded", rl, 5*money.Dollar, 5_000_000)
			r.Cancel()
			wantWindows(t, "cancelled", rl, 0, 0)
			mustDo(t, rl.Persist)
			mustDo(t, rl.Load)
			wantWindows(t, "stored", rl, 0, 0)
		})
	}
}

// What Reset forgets of the month is forgotten in the file, too; and what was spent is not.
func TestResetForgetsTheMonthInFiles(t *testing.T) {
	for _, backend := range []string{"yaml", "sqlite"} {
		for _, model := range []string{"m", "unlisted"} {
			synctest.Test(t, func(t *testing.T) {
				cfg := windowed(t.TempDir(), backend)
				cfg.Quotas["*"] = cfg.Quotas["m"]
				rl := openWindowed(t, cfg)
				rl.RecordUsage(model, 5_000_000, 0)
				mustDo(t, rl.Persist)
				time.Sleep(26 * time.Hour)
				rl.Reset("")
				time.Sleep(26 * time.Hour)
				rl.RecordUsage("other", 1, 0)
				mustDo(t, rl.Persist)
				again := openWindowed(t, cfg)
				mustDo(t, again.Load)
				if s := again.Stats(model); s.TokensMonth != 0 || s.SpendMonth != 5*money.Dollar {
					t.Errorf("%s: %+v", model, s)
				}
			})
		}
	}
}

// A margin of more than the store keeps does not lose what counts.
func TestMarginOfPaymentsOutlastsTheProgram(t *testing.T) {
	for _, backend := range []string{"yaml", "sqlite"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := windowed(t.TempDir(), backend)
			cfg.Margin = 50 * time.Second
			rl := openWindowed(t, cfg)
			rl.RecordUsage("m", 5_000_000, 0)
			time.Sleep(10*time.Minute + 30*time.Second)
			rl.RecordUsage("m", 1_000_000, 0)
			wantWindows(t, "before", rl, 6*money.Dollar, 6_000_000)
			mustDo(t, rl.Persist)
			rl.RecordUsage("m", 1_000_000, 0)
			mustDo(t, rl.Persist)
			again := openWindowed(t, cfg)
			mustDo(t, again.Load)
			wantWindows(t, "again", again, 7*money.Dollar, 7_000_000)
			time.Sleep(20 * time.Second)
			wantWindows(t, "its end", again, 7*money.Dollar, 7_000_000)
			time.Sleep(time.Nanosecond)
			wantWindows(t, "behind it", again, 2*money.Dollar, 7_000_000)
		})
	}
}

// A margin of hours lengthens the ten minutes by one, in memory as behind a restart.
func TestLongMarginOfPayments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := windowed(t.TempDir(), "sqlite")
		cfg.Margin = 3 * time.Hour
		rl := openWindowed(t, cfg)
		rl.RecordUsage("m", 8_000_000, 0)
		time.Sleep(time.Minute)
		if d := rl.Decide("m", 3_000_000); d.RetryAfter != 10*time.Minute+1 {
			t.Errorf("%+v", d)
		}
		time.Sleep(10 * time.Minute)
		wantWindows(t, "after 11 minutes", rl, 8*money.Dollar, 8_000_000)
		time.Sleep(time.Nanosecond)
		wantWindows(t, "behind them", rl, 0, 8_000_000)
	})
}

// The month follows the wall clock: one that is set back over the end of a month takes what was
// used along, and one that is set forward leaves it behind.
func TestMonthOnClocksThatAreSet(t *testing.T) {
	for _, zone := range []string{"", "Europe/Berlin", "Pacific/Apia"} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2000, 3, 1, 12, 0, 0, 0, time.UTC)))
			q := ModelQuota{MaxTokensPerMonth: 100, DayZone: zone}
			rl := openWindowed(t, Config{Quotas: map[string]ModelQuota{"m": q}})
			r, _ := rl.Reserve("m", 60, 0)
			for _, by := range []time.Duration{-time.Hour, -48 * time.Hour, time.Hour, 0} {
				rl.clock.Wall = wallAhead(by)
				time.Sleep(time.Minute)
				if d := rl.Decide("m", 41); d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 32*24*time.Hour || !rl.CanSend("m", 40) {
					t.Errorf("%q, %v: %+v", zone, by, d)
				}
			}
			r.Cancel()
			if !rl.CanSend("m", 100) {
				t.Errorf("%q: %+v", zone, rl.Decide("m", 100))
			}
			rl.RecordUsage("m", 60, 0)
			rl.clock.Wall = wallAhead(31 * 24 * time.Hour)
			time.Sleep(time.Minute)
			if !rl.CanSend("m", 100) {
				t.Errorf("%q: set forward: %+v", zone, rl.Decide("m", 100))
			}
		})
	}
}

// A limiter whose quota does not limit spend leaves in a database what others have paid.
func TestPaymentsOfOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := windowed(t.TempDir(), "sqlite")
		limited := openWindowed(t, cfg)
		limited.RecordUsage("m", 4_000_000, 0)
		mustDo(t, limited.Persist)
		free := cfg
		free.Quotas = map[string]ModelQuota{"m": {MaxSpendPerDay: 100 * money.Dollar}}
		other := openWindowed(t, free)
		for range 2 {
			mustDo(t, other.Load)
			other.RecordUsage("m", 1_000_000, 0)
			mustDo(t, other.Persist)
		}
		again := openWindowed(t, cfg)
		mustDo(t, again.Load)
		wantWindows(t, "again", again, 4*money.Dollar, 4_000_000)
	})
}
