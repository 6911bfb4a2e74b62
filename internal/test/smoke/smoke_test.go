package smoke

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

func kinds(t *testing.T, f func(t *testing.T, open func(cfg ratelimit.Config) *ratelimit.RateLimiter)) {
	t.Run("mem", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := memlog.New(memlog.Faults{})
			f(t, func(cfg ratelimit.Config) *ratelimit.RateLimiter {
				cfg.Store = s
				rl, err := ratelimit.NewWithConfig(cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { rl.Close() })
				return rl
			})
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.db")
		f(t, func(cfg ratelimit.Config) *ratelimit.RateLimiter {
			cfg.Shared = true
			rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := rl.Close(); err != nil {
					t.Error(err)
				}
			})
			return rl
		})
	})
}

func TestReserve(t *testing.T) {
	kinds(t, func(t *testing.T, open func(cfg ratelimit.Config) *ratelimit.RateLimiter) {
		cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5, MaxTPM: 1000, MaxInFlight: 3}}}
		a, b := open(cfg), open(ratelimit.Config{Quotas: cfg.Quotas})
		r1, d := a.Reserve("m", 10, 10)
		if r1 == nil {
			t.Fatalf("%+v", d)
		}
		r2, _ := b.Reserve("m", 10, 10)
		r3, _ := a.Reserve("m", 10, 10)
		if r4, d := b.Reserve("m", 1, 1); r4 != nil || d.Code != ratelimit.DecisionInFlightLimit {
			t.Fatalf("%+v", d)
		}
		if s := b.Stats("m"); s.RPM != 3 || s.InFlight != 3 || s.TPM != 60 {
			t.Errorf("%+v", s)
		}
		r1.Commit(1, 2)
		r2.Cancel()
		if s := a.Stats("m"); s.RPM != 2 || s.InFlight != 1 || s.TPM != 23 {
			t.Errorf("%+v", s)
		}
		if got := len(b.State["m"].Requests); got != 2 {
			t.Errorf("State shows %d", got)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r4, err := b.Acquire(ctx, "m", 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		r5, err := b.Acquire(ctx, "m", 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			r6, err := a.Acquire(ctx, "m", 3, 4)
			if err != nil {
				t.Error(err)
			}
			r6.Commit(1, 1)
		})
		time.Sleep(50 * time.Millisecond)
		if s := b.Stats("m"); s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		r4.Commit(1, 1)
		r5.Commit(1, 1)
		wg.Wait()
		r3.Commit(1, 1)
		_, err = b.Acquire(ctx, "m", 3, 4)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var le *ratelimit.LimitError
		if !errors.As(err, &le) {
			t.Errorf("%v", err)
		} else {
			t.Logf("%v", err)
		}
		a.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 6, DayZone: "Europe/Berlin", MaxRPD: 7})
		if q, _ := b.Quotas["m"], 0; q.MaxRPM != 6 {
			if _, q, _ := b.QuotaFor("m"); q.MaxRPM != 6 {
				t.Errorf("%+v", q)
			}
		}
		b.RecordUsage("m", 5, 5)
		if d := a.Decide("m", 1); d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter <= 0 {
			t.Errorf("%+v", d)
		}
		b.Cooldown("m", time.Now().Add(time.Hour))
		if d := a.Decide("m", 1); d.Code != ratelimit.DecisionCooldown {
			t.Errorf("%+v", d)
		}
		a.Reset("m")
		if d := b.Decide("m", 1); !d.Allowed {
			t.Errorf("%+v", d)
		}
		t.Log(a.Explain("m"))
	})
}
